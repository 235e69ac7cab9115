"""An engine on a small real model that fills the middle."""

from pathlib import Path

import pytest

from inference.engine import Engine
from inference.models import registry

FIM = Path(__file__).parents[3] / "data" / "fim"


@pytest.fixture(scope="session")
def middle() -> Engine:
    """In float32, where one row and many give the same token."""
    return Engine(registry.load(str(FIM), device="cpu", dtype="float32"))
