"""Editors for the end-to-end tests: one shared by most, and more on request. See `tests.workers`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from lsp_server.usage.statistics import STATE_VARIABLE
from lsp_server.worker import WorkerClient
from tests.e2e.listening import FLAGS, OPTIONS, Listening, endpoint_with
from tests.e2e.raw_client import RawClient
from tests.e2e.relay import Relay, relay_to
from tests.e2e.user import User
from tests.workers import kill, short_folder

PATIENT = {"deadlineMs": {"automatic": 60_000, "invoked": 60_000}, "maxSteps": 8, "idleSeconds": 30}
"""Settings for a busy machine: no deadline cuts a fill short, few steps keep it cheap, and no worker is left behind."""

Start = Callable[..., Awaitable[RawClient]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests here share one loop, as they share the editor."""
    for item in items:
        if item.get_closest_marker("asyncio") and item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@asynccontextmanager
async def alone(options: object = PATIENT, **more: Any) -> AsyncIterator[RawClient]:
    """An editor in a runtime folder of its own, and a worker that is killed at the end."""
    with short_folder() as folder:
        client = await RawClient.start(Path(folder), options, **more)
        yield client
        pid = (await client.status())["pid"]
        assert await client.quit() == 0
        if pid:
            kill(pid)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for state of the servers that are started from now on, and of the command."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    return tmp_path / "state"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def client(runtime_folder: Path) -> AsyncIterator[RawClient]:
    """A server that counts in UTF-16, with a worker that is ready."""
    client = await RawClient.start(runtime_folder, PATIENT)
    await User(client, "x = ‸").complete()
    yield client
    assert await client.quit() == 0
    assert client.shown == [], "the server showed messages that nobody expected"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def relay(runtime_folder: Path) -> AsyncIterator[Relay]:
    """In front of the worker of a small model that fills the middle, loaded."""
    async with WorkerClient(OPTIONS, name="tests") as client:
        await client.load()
        async with relay_to(client.paths.socket) as relay:
            yield relay


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def endpoint(relay: Relay) -> AsyncIterator[Listening]:
    async with endpoint_with(relay.folder, *FLAGS) as endpoint:
        yield endpoint


@pytest_asyncio.fixture(loop_scope="session")
async def http(endpoint: Listening) -> AsyncIterator[httpx2.AsyncClient]:
    async with endpoint.http() as http:
        yield http


@pytest_asyncio.fixture(loop_scope="session")
async def start(runtime_folder: Path) -> AsyncIterator[Start]:
    started: list[RawClient] = []

    async def start(options: object = PATIENT, *flags: str, **more: Any) -> RawClient:
        started.append(await RawClient.start(runtime_folder, options, *flags, **more))
        return started[-1]

    yield start
    for client in started:
        if client.process.returncode is None:
            assert await client.quit() == 0
