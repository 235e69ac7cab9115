"""Editors for the end-to-end tests: one shared by most, and more on request. See `tests.workers`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
from lsprotocol import types

from lsp_server.usage.usage import STATE_VARIABLE
from tests.e2e.editor import Editor, capabilities
from tests.e2e.raw_client import RawClient

PATIENT = {"deadlineMs": {"automatic": 60_000, "invoked": 60_000}, "maxSteps": 8, "idleSeconds": 30}
"""Settings for a busy machine: no deadline cuts a fill short, few steps keep it cheap, and no worker is left behind."""

StartEditor = Callable[..., Awaitable[Editor]]
StartRaw = Callable[..., Awaitable[RawClient]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests here share one loop, as they share the editor, but for those whose file names another."""
    for item in items:
        mark = item.get_closest_marker("asyncio")
        if mark and not mark.kwargs and item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for state of the servers that are started from now on, and of the command."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    return tmp_path / "state"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def editor(runtime_folder: Path) -> AsyncIterator[Editor]:
    """A server that counts in UTF-16, with a worker that is ready."""
    editor = await Editor.start(runtime_folder, capabilities(), PATIENT)
    await editor.complete(editor.open("x = "), types.Position(0, 4))
    yield editor
    messages = [message.message for message in editor.client.messages]
    assert await editor.quit() == 0
    assert messages == [], "the server showed messages that nobody expected"


@pytest_asyncio.fixture(loop_scope="session")
async def start_editor(runtime_folder: Path) -> AsyncIterator[StartEditor]:
    started: list[Editor] = []

    async def start(can: types.ClientCapabilities, options: object = PATIENT, *flags: str) -> Editor:
        started.append(await Editor.start(runtime_folder, can, options, flags))
        return started[-1]

    yield start
    for editor in started:
        assert await editor.quit() == 0


@pytest_asyncio.fixture(loop_scope="session")
async def start_raw(runtime_folder: Path) -> AsyncIterator[StartRaw]:
    started: list[RawClient] = []

    async def start(
        options: object = PATIENT, *, initialize: bool = True, capabilities: Mapping[str, object] | None = None
    ) -> RawClient:
        started.append(await RawClient.start(runtime_folder, options, initialize=initialize, capabilities=capabilities))
        return started[-1]

    yield start
    for client in started:
        if client.process.returncode is None:
            client.process.kill()
        await client.ended()
