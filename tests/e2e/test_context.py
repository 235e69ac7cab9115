"""Context reaches the worker. A relay in its place keeps the requests that a real worker answers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from lsprotocol.types import Position
from pygls.exceptions import JsonRpcException

from inference.messages import LENGTH_BYTES, InfillRequest, decode_client_message
from lsp_server.worker import WorkerClient, WorkerOptions
from lsp_server.worker.paths import WorkerPaths
from lsp_server.worker.survey import running_workers
from tests.e2e.conftest import PATIENT
from tests.e2e.editor import everywhere
from tests.e2e.workspace import Workspace, open_workspace
from tests.inference.models.random_model import save_random_checkpoint
from tests.workers import fill, kill

pytestmark = pytest.mark.asyncio(loop_scope="session")
HELPERS = "def load(path, strict):\n    return path\n"
DOCUMENT = "from helpers import load\n\nx = ???\n"


class Relay:
    """Listens where the server expects its worker, passes messages on both ways, and keeps the requests."""

    def __init__(self, worker: WorkerPaths) -> None:
        self.requests: list[InfillRequest] = []
        self._worker = worker

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        back, forth = await asyncio.open_unix_connection(self._worker.socket)
        answering = asyncio.create_task(self._answer(back, writer))
        while length := await reader.read(LENGTH_BYTES):
            body = await reader.readexactly(int.from_bytes(length, "big"))
            message = decode_client_message(body)
            if isinstance(message, InfillRequest):
                self.requests.append(message)
            forth.write(length + body)
        forth.close()
        await answering

    async def _answer(self, worker: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        while data := await worker.read(1 << 16):
            server.write(data)
        server.close()


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerOptions]:
    """A checkpoint of the released kind, which can use context. Its weights are random, its answers noise."""
    folder = tmp_path_factory.mktemp("checkpoint")
    save_random_checkpoint(folder)
    yield WorkerOptions(model=str(folder), device="cpu")
    for worker in asyncio.run(running_workers("tests")):
        if worker.status.model == str(folder):
            kill(worker.status.pid)


@asynccontextmanager
async def relayed(options: WorkerOptions, project: Path, **settings: object) -> AsyncIterator[tuple[Relay, Workspace]]:
    """A server with `project` as its workspace, and a relay between it and a real worker."""
    async with WorkerClient(options, name="tests") as client:
        await client.infill(fill(max_steps=1))
        relay, model = Relay(client.paths), {"model": options.model, "device": options.device}
        with TemporaryDirectory(prefix="ils-", dir="/tmp") as folder:
            async with await asyncio.start_unix_server(relay.serve, Path(folder) / client.paths.socket.name):
                started = {**PATIENT, **model, "maxSteps": 1, "context": {"maxMs": 5_000}, **settings}
                editor = await open_workspace(Path(folder), project, options=started)
                yield relay, editor
                assert await editor.quit() == 0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / ".env").write_text("PASSWORD = 'load'\n")
    return tmp_path


async def test_a_fill_and_an_action_show_the_model_what_is_imported_and_what_is_open(
    chat: WorkerOptions, project: Path
) -> None:
    async with relayed(chat, project) as (relay, editor):
        for name in ("a.py", "b.py", ".env"):
            (project / name).touch()
            editor.open_in(project, f"# {name}\n{DOCUMENT}", name)
        uri = editor.open_in(project, DOCUMENT)
        await editor.complete(uri, Position(2, 4))
        action = next(action for action in await editor.actions(uri, everywhere()) if "hole" in action.title)
        with suppress(JsonRpcException):  # the noise may be no fill at all
            await editor.resolve(action)
        status = await editor.status()
    assert (status.contextTokens > 0, status.lastFailure) == (True, None)
    assert len(relay.requests) == 2
    for request in relay.requests:
        assert [snippet.path for snippet in request.context] == ["helpers.py", "b.py", "a.py"]
        assert request.context[0].text == HELPERS.rstrip()
        assert request.context[1].text.startswith("# b.py")


async def test_nothing_is_gathered_for_a_model_that_cannot_use_it(project: Path) -> None:
    async with relayed(WorkerOptions(), project) as (relay, editor):
        await editor.complete(editor.open_in(project, DOCUMENT), Position(2, 4))
        assert (await editor.status()).contextTokens == 0
    assert [request.context for request in relay.requests] == [()]


async def test_nothing_is_gathered_where_context_is_switched_off(chat: WorkerOptions, project: Path) -> None:
    off = {"enabled": False, "maxMs": 5_000}
    async with relayed(chat, project, context=off) as (relay, editor):
        await editor.complete(editor.open_in(project, DOCUMENT), Position(2, 4))
        assert (await editor.status()).contextTokens > 0
    assert [request.context for request in relay.requests] == [()]
