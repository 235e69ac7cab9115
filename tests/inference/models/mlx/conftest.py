"""The same checkpoints through MLX and through torch, in float32."""

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
