"""The real model, which `get_model.py` puts into the user's folder of models, and one server for all tests.

Where it can be had neither from the hub nor from the package index, nothing is tested, and the run's last lines say so
in red.
"""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.raw_client import RawClient, capable
from tests.not_tested import not_tested, pytest_terminal_summary  # noqa: F401 (a hook)
from tests.workers import USERS_HF_HOME

MODEL = "qwen2.5-coder-0.5b"
DEVICES = ("mlx:cpu", "Apple GPU") if find_spec("mlx") else ("cpu",)
OPTIONS = {"deadlineMs": {"automatic": 110_000, "invoked": 110_000}, "idleSeconds": 60, "device": DEVICES[0][:3]}


@pytest.fixture(scope="session")
def pulled(runtime_folder: Path) -> None:
    """The model is here, each byte checked."""
    os.environ.pop("HF_HOME")
    if USERS_HF_HOME is not None:
        os.environ["HF_HOME"] = USERS_HF_HOME
    command = [sys.executable, "-m", "tests.real.get_model", MODEL]
    done = subprocess.run(command, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        not_tested(f"a real model: {done.stderr.strip().splitlines()[0]}")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def client(runtime_folder: Path, pulled: None) -> AsyncIterator[RawClient]:
    """An editor whose user has set the model's name alone."""
    can = capable(experimental__infillDrafts=True)
    client = await RawClient.start(runtime_folder, {**OPTIONS, "model": MODEL}, capabilities=can)
    yield client
    assert await client.quit() == 0
