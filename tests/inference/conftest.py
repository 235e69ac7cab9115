"""The engines the tests run on: the embedded checkpoint, a small random one of the released kind, and the twin."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from inference.engine.engine import Engine
from inference.models import registry
from inference.models.diffusion_gemma.network import DiffusionGemmaNetwork
from lsp_server.worker.paths import WorkerPaths
from tests.inference.loaded import TWIN
from tests.inference.models.fim.checkpoints import FIM
from tests.inference.models.random_model import random_model, save_random_checkpoint
from tests.workers import RawClient


@pytest.fixture(scope="session")
def embedded() -> Engine:
    """The checkpoint that ships: mask corruption, plain prompt."""
    return Engine(registry.load_model())


@pytest.fixture
async def client(resident: WorkerPaths) -> AsyncIterator[RawClient]:
    client = await RawClient.open(resident)
    yield client
    client.close()


@pytest.fixture(scope="session")
def random_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("random-checkpoint")
    save_random_checkpoint(folder)
    return folder


@pytest.fixture(scope="module")
def network() -> DiffusionGemmaNetwork:
    return DiffusionGemmaNetwork(random_model())


@pytest.fixture(scope="session")
def released(random_folder: Path) -> Engine:
    """Random weights of the released kind: uniform corruption, chat prompt, several experts."""
    return Engine(registry.load_model(str(random_folder), device="cpu"))


@pytest.fixture(scope="session")
def twin() -> Engine:
    """A trained checkpoint of the released kind, with a released checkpoint's vocabulary and no limits of its own."""
    return Engine(registry.load_model(str(TWIN), device="cpu"))


@pytest.fixture(scope="session")
def middle() -> Engine:
    """A small real model that fills the middle, in float32, where one row and many give the same token."""
    return Engine(registry.load_model(str(FIM), device="cpu", dtype="float32"))
