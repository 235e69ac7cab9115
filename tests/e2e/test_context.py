"""Context reaches the worker. A relay records the requests that a real worker answers."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from inference.messages import PinnedText, Snippet
from lsp_server.diagnosis.workers import survey_workers
from lsp_server.worker import WorkerClient, WorkerOptions
from tests.e2e.conftest import PATIENT
from tests.e2e.raw_client import EVERYWHERE, RawClient, Refused
from tests.e2e.relay import Relay, relay_to
from tests.e2e.user import User
from tests.inference.models.random_model import save_random_checkpoint
from tests.workers import fill, infill_ls, kill, poll

HELPERS = "def load(path, strict):\n    return path\n"
DOCUMENT = "from helpers import load\n\nx = ‸\ny = ???\n"
IMPORTING = "from helpers import *\nimport hidden\nimport linked\n"


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerOptions]:
    """A checkpoint of the released kind, which can use context. Its weights are random, its answers noise."""
    folder = tmp_path_factory.mktemp("checkpoint")
    save_random_checkpoint(folder)
    yield WorkerOptions(model=str(folder), device="cpu")
    for worker in asyncio.run(survey_workers("tests")).running:
        if worker.status.model == str(folder):
            kill(worker.status.pid)


@asynccontextmanager
async def relayed(options: WorkerOptions, project: Path, **settings: object) -> AsyncIterator[tuple[Relay, RawClient]]:
    """A server with `project` as its workspace, and a relay between it and a real worker."""
    async with WorkerClient(options, name="tests") as worker:
        await worker.request(fill(max_steps=1))
        async with relay_to(worker.paths.socket) as relay:
            started = {**PATIENT, "model": options.model, "device": options.device, "maxSteps": 1, **settings}
            client = await RawClient.start(relay.folder, started, folders=[project])
            yield relay, client
            assert await client.quit() == 0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / ".env").write_text("PASSWORD = 'load'\n")
    return tmp_path


async def test_fills_and_actions_show_pieces_of_other_files(chat: WorkerOptions, project: Path) -> None:
    """Open ones, then imported ones; and no other hole's marker: the model would copy it."""
    async with relayed(chat, project) as (relay, client):
        for name in ("a.py", "b.py", ".env"):
            (project / name).touch()
            User(client, f"# {name}\n{DOCUMENT}", uri=(project / name).as_uri())

        async def shown() -> bool:
            relay.requests.clear()
            user = User(client, DOCUMENT, uri=(project / "main.py").as_uri())
            await user.complete()
            action = next(action for action in await user.actions(*EVERYWHERE) if "hole" in action["title"])
            with suppress(Refused):  # the noise may be no fill at all
                await user.resolved(action)
            return all(request.context for request in relay.requests)

        await poll(shown, bool)  # a busy machine may find nothing in time
        status = await client.status()
    assert (status["contextTokens"] > 0, status["lastFailure"]) == (True, None)
    assert len(relay.requests) >= 2  # more are sent where no answer fits
    for request in relay.requests:
        assert [snippet.path for snippet in request.context] == ["b.py", "a.py", "helpers.py"]
        assert request.context[0].text.startswith("# b.py")
        pinned = [part.text for part in request.segments if isinstance(part, PinnedText)]
        assert not any("???" in text for text in [*pinned, *(snippet.text for snippet in request.context)])


async def test_nothing_is_gathered_where_context_is_switched_off(chat: WorkerOptions, project: Path) -> None:
    async with relayed(chat, project, context={"enabled": False}) as (relay, client):
        await User(client, DOCUMENT, uri=(project / "main.py").as_uri()).complete()
        assert (await client.status())["contextTokens"] > 0
    assert {request.context for request in relay.requests} == {()}


@pytest.mark.parametrize("shown", [["main.py", "helpers.py"], []])
async def test_the_command_shows_imports_and_far_parts(chat: WorkerOptions, project: Path, shown: list[str]) -> None:
    """Unless it is switched off. No file that is secret, by its own name or by that of a link's target."""
    (project / "infill-ls.toml").write_text('secretGlobs = ["hidden.py"]\n')
    (project / "hidden.py").write_text(HELPERS)
    (project / "linked.py").symlink_to(".env")
    between = f"{' ' * 99}\n" * 1_200
    (project / "main.py").write_text(f"{IMPORTING}x = load(path)\n{between}load(path)\ny = ???\n")
    words = ("fill", project / "main.py", "--model", chat.model, "--device", "cpu", "--steps", 1)
    async with relayed(chat, project) as (relay, _):
        enabled = "true" if shown else "false"

        async def found() -> tuple[Snippet, ...]:
            relay.requests.clear()
            await asyncio.to_thread(infill_ls, *words, folder=relay.folder, INFILL_LS_CONTEXT_ENABLED=enabled)
            return relay.requests[0].context

        context = await poll(found, lambda context: context or not shown)  # see above
    assert [snippet.path for snippet in context] == shown
    assert all("load(path" in snippet.text for snippet in context)
