"""The same checkpoints through MLX and through torch, in float32, and a copy that MLX's own tools packed."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from inference.engine.engine import Engine
from inference.models import registry

collect_ignore_glob = [] if find_spec("mlx") and find_spec("mlx_vlm") else ["test_*.py"]

EMBEDDED = Path(registry.open_checkpoint("embedded").folder)


@pytest.fixture(scope="session")
def on_mlx() -> Engine:
    return Engine(registry.load_model(device="mlx", dtype="float32"))


@pytest.fixture(scope="session")
def on_torch() -> Engine:
    return Engine(registry.load_model(device="cpu", dtype="float32"))


@pytest.fixture(scope="session")
def packed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded checkpoint in four bits, written by mlx-vlm's tools as its `convert` does."""
    from mlx_vlm.quant_utils import quantize_model
    from mlx_vlm.utils import save_config, save_weights

    from inference.models.mlx import weights

    folder = tmp_path_factory.mktemp("packed")
    for name in ("tokenizer.json", "infill.json", "generation_config.json"):
        shutil.copy(EMBEDDED / name, folder)
    model = weights.load_model(
        registry.open_checkpoint("embedded"), "bfloat16", on_gpu=True, progress=lambda _share, _what: None
    )
    config = json.loads((EMBEDDED / "config.json").read_text())
    model, config = quantize_model(model, config, 64, 4, quant_predicate=model.quant_predicate)
    save_weights(folder, model)
    save_config(config, folder / "config.json")
    return folder
