"""The prompt where the cursor rests is read before anything is typed there, and nothing is written."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lsp_server.worker import WorkerClient
from tests.e2e.conftest import PATIENT
from tests.e2e.listening import OPTIONS
from tests.e2e.raw_client import RawClient, capable
from tests.e2e.relay import Relay, relay_to
from tests.e2e.user import User
from tests.inference.models.test_gguf import FIM
from tests.workers import poll, until


def document(name: str) -> str:
    """A long text like no other."""
    lines = "".join(f"{name}_{number} = {number}\n" for number in range(200))
    return f"{lines}{name} = ‸\n{lines}"


@asynccontextmanager
async def editing(runtime_folder: Path, **more: object) -> AsyncIterator[tuple[RawClient, Relay]]:
    """A client of a worker that has its model, and a relay that sees the requests."""
    settings = {**PATIENT, "model": str(FIM), "device": "cpu", "readAhead": "on", **more}
    capabilities = settings.pop("capabilities", capable())
    async with WorkerClient(OPTIONS, name="tests") as worker, relay_to(worker.paths.socket) as relay:
        await worker.load()
        client = await RawClient.start(relay.folder, settings, capabilities=capabilities)
        await User(client, "x = ‸").complete()
        yield client, relay
        await client.quit()


def rests(user: User) -> None:
    line, character = user.place(user.cursor)
    user.says("infill/didRest", position={"line": line, "character": character})


def reads(relay: Relay) -> int:
    return sum(request.prefill_only for request in relay.requests)


async def test_the_first_request_finds_its_prompt_read(runtime_folder: Path) -> None:
    """Without snippets, which an automatic request waits for too briefly on a busy machine."""
    async with editing(runtime_folder, context={"enabled": False}) as (client, _):
        user = User(client, document("first"))
        tokens = (await client.status())["aheadTokens"]
        rests(user)
        status = await poll(client.status, lambda status: status["aheadTokens"] >= tokens + 500)
        user.type("v")
        await user.complete(invoked=False)
        await poll(client.status, lambda now: now["aheadHits"] == status["aheadHits"] + 1)


async def test_a_place_is_read_once(runtime_folder: Path) -> None:
    async with editing(runtime_folder) as (client, relay):
        user = User(client, document("second"))
        rests(user)
        await until(lambda: reads(relay) == 1)
        rests(user)
        user.cursor = len(user.text) - 1
        rests(user)
        await until(lambda: reads(relay) == 2)
        assert all(request.quick for request in relay.requests[-2:])


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"readAhead": "off"}, "main.py"), ({}, ".env"), ({"disabledLanguages": ["python"]}, "main.py")],
)
async def test_nothing_is_read_where_it_is_unwanted(
    runtime_folder: Path, settings: dict[str, object], name: str
) -> None:
    async with editing(runtime_folder, **settings) as (client, relay):
        rests(User(client, document("third"), name=name))
        await User(client, "y: int = ‸", "rust").complete()
        assert reads(relay) == 0


async def test_code_actions_tell_where_the_cursor_rests(runtime_folder: Path) -> None:
    """In editors without our plugin."""
    async with editing(runtime_folder, capabilities=capable(experimental=None)) as (client, relay):
        user = User(client, document("fourth"))
        await user.actions(user.place(user.cursor))
        await until(lambda: reads(relay) == 1)
