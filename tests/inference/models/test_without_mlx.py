"""Without MLX, asking for it names the package to install; everything else works."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from inference.models import registry
from inference.models.family import ModelError
from tests.inference.models.fim.test_family import FIM
from tests.inference.models.random_masked import save_open_dcoder

pytestmark = pytest.mark.skipif(find_spec("mlx") is not None, reason="MLX is installed; see the tests in mlx")


def test_the_extra_is_named_where_the_device_is_asked_for() -> None:
    with pytest.raises(ModelError, match=r"mlx and mlx-vlm, .*; run: .*pip install .infill-ls\[mlx-vlm\]"):
        registry.load_model(device="mlx")
    with pytest.raises(ModelError, match=r"package mlx, which is missing; run: .*pip install .infill-ls\[mlx\]"):
        registry.load_model(str(FIM), device="mlx")


def test_a_mac_without_it_is_told_how_to_use_its_gpu() -> None:
    code = (
        "import platform, sys\nsys.platform, platform.machine = 'darwin', lambda: 'arm64'\n"
        "from inference.install_hints import mlx_advice\nprint(mlx_advice())"
    )
    said = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert said.startswith("to use the Apple GPU run: ") and "infill-ls[mlx]" in said


def test_a_family_that_does_not_run_on_it_says_so(tmp_path: Path) -> None:
    save_open_dcoder(tmp_path)
    with pytest.raises(ModelError, match="device 'mlx' runs no masked models"):
        registry.load_model(str(tmp_path), device="mlx")
