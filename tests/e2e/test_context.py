"""Context reaches the worker: a stand-in for it, which keeps the requests, in the place where the server expects it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from lsprotocol.types import Position

from inference.messages import (
    LENGTH_BYTES,
    Candidate,
    Done,
    InfillRequest,
    Status,
    StatusRequest,
    Welcome,
    WorkerState,
    decode_client_message,
    frame,
)
from lsp_server.worker import WorkerOptions
from lsp_server.worker.paths import FOLDER_VARIABLE, place_of
from tests.e2e.conftest import PATIENT
from tests.e2e.editor import everywhere
from tests.e2e.workspace import Workspace, open_workspace
from tests.inference.engine.random_model import save_random_checkpoint
from tests.workers import kill

pytestmark = pytest.mark.asyncio(loop_scope="session")
HELPERS = "def load(path, strict):\n    return path\n"
DOCUMENT = "from helpers import load\n\nx = ???\n"


class Recorder:
    """Answers each request with the same text, and keeps the request."""

    def __init__(self, context_tokens: int) -> None:
        self.requests: list[InfillRequest] = []
        self._status = Status(WorkerState.READY, model="recorder", context_tokens=context_tokens)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        writer.write(frame(Welcome()) + frame(self._status))
        while length := await reader.read(LENGTH_BYTES):
            message = decode_client_message(await reader.readexactly(int.from_bytes(length, "big")))
            if isinstance(message, InfillRequest):
                self.requests.append(message)
                writer.write(frame(Candidate(message.id, ("1",), confidence=1.0)) + frame(Done(message.id)))
            elif isinstance(message, StatusRequest):
                writer.write(frame(self._status))


@asynccontextmanager
async def recorded(
    monkeypatch: pytest.MonkeyPatch, project: Path, context_tokens: int, **settings: object
) -> AsyncIterator[tuple[Recorder, Workspace]]:
    """A recorder, and a server that has it for a worker, with `project` as its workspace."""
    recorder = Recorder(context_tokens)
    with TemporaryDirectory(prefix="ils-", dir="/tmp") as folder:
        monkeypatch.setenv(FOLDER_VARIABLE, folder)
        place = place_of(WorkerOptions())
        async with await asyncio.start_unix_server(recorder.serve, place.socket):
            editor = await open_workspace(Path(folder), project, options={**PATIENT, **settings})
            yield recorder, editor
            assert await editor.quit() == 0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / ".env").write_text("PASSWORD = 'load'\n")
    return tmp_path


async def test_a_fill_and_an_action_show_the_model_what_is_imported_and_what_is_open(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    async with recorded(monkeypatch, project, 4_000, context={"maxMs": 5_000}) as (recorder, editor):
        for name in ("a.py", "b.py", ".env"):
            (project / name).touch()
            editor.open_in(project, f"# {name}\n{DOCUMENT}", name)
        uri = editor.open_in(project, DOCUMENT)
        await editor.complete(uri, Position(2, 4))
        action = next(action for action in await editor.actions(uri, everywhere()) if "hole" in action.title)
        await editor.resolve(action)
    assert len(recorder.requests) == 2
    for request in recorder.requests:
        assert [snippet.path for snippet in request.context] == ["helpers.py", "b.py", "a.py"]
        assert request.context[0].text == HELPERS.rstrip()
        assert request.context[1].text.startswith("# b.py")


@pytest.mark.parametrize(("context_tokens", "enabled"), [(0, True), (4_000, False)])
async def test_nothing_is_gathered_for_a_model_without_a_use_for_it_or_where_it_is_off(
    monkeypatch: pytest.MonkeyPatch, project: Path, context_tokens: int, enabled: bool
) -> None:
    settings = {"context": {"enabled": enabled, "maxMs": 5_000}}
    async with recorded(monkeypatch, project, context_tokens, **settings) as (recorder, editor):
        await editor.complete(editor.open_in(project, DOCUMENT), Position(2, 4))
        assert (await editor.status()).contextTokens == context_tokens
    assert [request.context for request in recorder.requests] == [()]


async def test_a_real_worker_with_a_chat_checkpoint_takes_context(project: Path, tmp_path_factory: Any) -> None:
    """Random weights of the released kind: what they answer is noise, but they answer."""
    checkpoint = tmp_path_factory.mktemp("checkpoint")
    save_random_checkpoint(checkpoint)
    with TemporaryDirectory(prefix="ils-", dir="/tmp") as folder:
        options = {**PATIENT, "model": str(checkpoint), "device": "cpu", "maxSteps": 1, "context": {"maxMs": 5_000}}
        editor = await open_workspace(Path(folder), project, options=options)
        uri = editor.open_in(project, DOCUMENT)
        await editor.complete(uri, Position(2, 4))
        status = await editor.status()
        shown = await editor.messages()
        assert await editor.quit() == 0
        kill(status.pid)
    assert status.contextTokens > 0
    assert (status.lastFailure, shown) == (None, [])
