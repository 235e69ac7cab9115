"""Shadow mode end to end: the real server and embedded model, and beside it a partner's worker that asks a server."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from lsp_server.cli import main
from tests.e2e.conftest import Start
from tests.e2e.raw_client import RawClient
from tests.e2e.test_usage import QUICK, filled, put_in
from tests.e2e.user import Item, User
from tests.lsp_server.usage.records import pairs_once
from tests.partner_server import PartnerServer, partner_server

MARKED = "def average(numbers):\n    peculiar_total = ‸\n    return peculiar_total\n"


@pytest_asyncio.fixture(loop_scope="session")
async def partner() -> AsyncIterator[PartnerServer]:
    async with partner_server(answer=lambda _: "sum(numbers) / len(numbers)", kinds=("fim",)) as server:
        yield server


@pytest.fixture
def shadowed(state: Path, start: Start, partner: PartnerServer) -> Start:
    async def begin(**more: Any) -> RawClient:
        return await start({**QUICK, "partner": {"url": partner.url}, "shadow": {"sample": 1.0}, **more})

    return begin


async def shown(client: RawClient) -> tuple[User, Item]:
    user = User(client, MARKED)
    return user, await user.offered(invoked=True)


async def taken(user: User, item: Item) -> None:
    """The user takes an item and saves."""
    put_in(user, item)
    user.says("textDocument/didSave")
    await user.client.status()  # it has been seen


async def test_after_ghost_text_the_partner_is_asked_the_same_unseen(
    shadowed: Start, partner: PartnerServer, capsys: pytest.CaptureFixture[str], state: Path
) -> None:
    client = await shadowed()
    user, item = await shown(client)
    await partner.until(lambda server: bool(server.fills))
    await taken(user, item)
    edits = (await filled(client)).edits
    pair = (await pairs_once(1))[0]
    assert (pair.outcome, pair.language) == ("answered", "python")
    assert (pair.main_model, pair.other_model) == ("embedded", partner.name)
    assert min(pair.main_ms, pair.other_ms) > 0
    assert pair.main_similarity == 1.0 and pair.other_similarity < 1.0
    assert partner.fills[0].prefix.endswith("peculiar_total = ")
    assert await client.quit() == 0
    assert [note for note in client.notes if note["method"].startswith("window/showM")] == []
    assert main(["shadow", "report", "--json"]) == 0
    first, *_ = json.loads(capsys.readouterr().out)["comparisons"]
    assert (first["requests"], first["main"]) == (1, 1.0)
    held = b"".join(file.read_bytes() for file in state.rglob("*") if file.is_file())
    texts = [each["newText"].strip() for each in edits[-1]["documentChanges"][0]["edits"]] + [
        str(item["insertText"]).strip()
    ]
    words = ["peculiar", "numbers", "def size", "project/", "file:", "http", str(Path.home())]
    for word in words + [text for text in texts if len(text) >= 4]:
        assert word.encode() not in held, word


async def test_secrets_are_neither_compared_nor_counted(
    shadowed: Start, partner: PartnerServer, state: Path, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("KEY = ???\n")
    (tmp_path / "link.py").symlink_to(".env")
    client = await shadowed()
    for number, name in enumerate((".env", "link.py")):
        client.open((tmp_path / name).as_uri(), "KEY = ???\n")
        client.complete(number, (tmp_path / name).as_uri(), 0, 6, invoked=True)
        assert (await client.reply(number))["result"]["items"] == []
    assert await client.status()
    assert not state.exists()
    await shown(client)
    await partner.until(lambda server: bool(server.fills))  # what is asked for first is compared first
    assert not any("KEY" in asked.prefix for asked in partner.fills)
    assert await client.quit() == 0


async def test_partner_is_compared_with_embedded(shadowed: Start, partner: PartnerServer) -> None:
    client = await shadowed(model="partner")
    user, item = await shown(client)
    await taken(user, item)
    (pair,) = await pairs_once(1)
    assert (pair.main_model, pair.other_model) == (partner.name, "embedded")
    assert pair.outcome in ("answered", "nothing", "late")
    assert await client.quit() == 0
