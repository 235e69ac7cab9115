"""Without MLX, asking for it names the package to install; everything else works."""

import json
import os
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


def on_a_mac(code: str, **variables: str) -> str:
    """What code says on Apple silicon, as far as Python can tell."""
    mac = "import platform, sys\nfrom inference.models import catalogue, recommend, registry\n"
    mac += "sys.platform, platform.machine = 'darwin', lambda: 'arm64'\n"
    return subprocess.check_output(
        [sys.executable, "-c", mac + code], text=True, stderr=subprocess.STDOUT, env={**os.environ, **variables}
    )


def test_a_mac_without_it_is_told_how_to_use_its_gpu() -> None:
    said = on_a_mac("from inference.install_hints import mlx_advice\nprint(mlx_advice())")
    assert said.startswith("to use the Apple GPU run: ") and "infill-ls[mlx]" in said
    steps = "recommend.install_commands(catalogue.ENTRIES[1], recommend.examine_machine(None))"
    first, _ = json.loads(on_a_mac(f"import json\nprint(json.dumps({steps}))"))
    assert first[-1] == "infill-ls[mlx]", "editors take this step before they pull"


def test_the_processor_computes_where_it_is_broken(tmp_path: Path) -> None:
    (tmp_path / "mlx").mkdir()
    (tmp_path / "mlx" / "core.py").write_text("raise ImportError('built for a newer macOS')")
    code = f"model = registry.load_model({str(FIM)!r})\nprint(model.device, recommend.examine_machine(None).device)"
    said = on_a_mac(code, PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    assert said.endswith("cpu cpu\n")
    assert "built for a newer macOS; update the system or install mlx afresh; the processor computes instead" in said


def test_a_family_that_does_not_run_on_it_says_so(tmp_path: Path) -> None:
    save_open_dcoder(tmp_path)
    with pytest.raises(ModelError, match="device 'mlx' runs no masked models"):
        registry.load_model(str(tmp_path), device="mlx")
