"""Without MLX, asking for it names the package to install; everything else works."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from inference.models import registry
from inference.models.family import ModelError
from tests.inference.models.random_masked import save_open_dcoder

pytestmark = pytest.mark.skipif(find_spec("mlx") is not None, reason="MLX is installed; see the tests in mlx")


def test_the_extra_is_named_where_the_device_is_asked_for() -> None:
    with pytest.raises(ModelError, match=r"mlx and mlx-vlm, which are missing; .*pip install .infill-ls\[mlx\]"):
        registry.load_model(device="mlx")


def test_a_family_that_does_not_run_on_it_says_so(tmp_path: Path) -> None:
    save_open_dcoder(tmp_path)
    with pytest.raises(ModelError, match="device 'mlx' runs no masked models"):
        registry.load_model(str(tmp_path), device="mlx")
