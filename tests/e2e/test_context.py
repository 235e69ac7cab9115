"""Context reaches the worker. A relay records the requests that a real worker answers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from lsprotocol.types import Position
from pygls.exceptions import JsonRpcException

from lsp_server.diagnosis.workers import survey
from lsp_server.worker import WorkerClient, WorkerOptions
from tests.e2e.conftest import PATIENT
from tests.e2e.editor import everywhere
from tests.e2e.relay import Relay, relay_to
from tests.e2e.workspace import Workspace, open_workspace
from tests.inference.models.random_model import save_random_checkpoint
from tests.workers import fill, kill

HELPERS = "def load(path, strict):\n    return path\n"
DOCUMENT = "from helpers import load\n\nx = ???\n"


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerOptions]:
    """A checkpoint of the released kind, which can use context. Its weights are random, its answers noise."""
    folder = tmp_path_factory.mktemp("checkpoint")
    save_random_checkpoint(folder)
    yield WorkerOptions(model=str(folder), device="cpu")
    for worker in asyncio.run(survey("tests")).running:
        if worker.status.model == str(folder):
            kill(worker.status.pid)


@asynccontextmanager
async def relayed(options: WorkerOptions, project: Path, **settings: object) -> AsyncIterator[tuple[Relay, Workspace]]:
    """A server with `project` as its workspace, and a relay between it and a real worker."""
    async with WorkerClient(options, name="tests") as client:
        await client.ask(fill(max_steps=1))
        async with relay_to(client.paths.socket) as relay:
            model = {"model": options.model, "device": options.device}
            started = {**PATIENT, **model, "maxSteps": 1, **settings}
            editor = await open_workspace(relay.folder, project, options=started)
            yield relay, editor
            assert await editor.quit() == 0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / ".env").write_text("PASSWORD = 'load'\n")
    return tmp_path


async def test_fills_and_actions_show_pieces_of_open_files(chat: WorkerOptions, project: Path) -> None:
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
    assert len(relay.requests) >= 2  # more are sent where no answer fits
    for request in relay.requests:
        assert [snippet.path for snippet in request.context] == ["b.py", "a.py"]
        assert request.context[0].text.startswith("# b.py")


async def test_nothing_is_gathered_where_context_is_switched_off(chat: WorkerOptions, project: Path) -> None:
    async with relayed(chat, project, context={"enabled": False}) as (relay, editor):
        await editor.complete(editor.open_in(project, DOCUMENT), Position(2, 4))
        assert (await editor.status()).contextTokens > 0
    assert {request.context for request in relay.requests} == {()}
