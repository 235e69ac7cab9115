"""Shadow mode end to end: the real server and embedded model, and beside it a partner's worker that asks a server."""

import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from lsp_server.cli import main
from lsp_server.usage.place import usage_file
from tests.e2e.conftest import StartRaw
from tests.e2e.raw_client import CAN, RawClient
from tests.e2e.test_usage import HOLES, QUICK, Filler, put_in, saved
from tests.e2e.typist import Item, Typist
from tests.partner_server import PartnerServer, partner_server
from tests.workers import until

MARKED = "def average(numbers):\n    peculiar_total = ‸\n    return peculiar_total\n"
Start = Callable[..., Any]
Row = dict[str, Any]
_IN_ORDER = {
    "pair": "SELECT * FROM pair ORDER BY at_s",
    "pair_hole": "SELECT pair_hole.* FROM pair_hole JOIN pair ON pair.key = pair ORDER BY at_s, number",
}


@pytest_asyncio.fixture(loop_scope="session")
async def partner() -> AsyncIterator[PartnerServer]:
    async with partner_server(answer=lambda _: "sum(numbers) / len(numbers)", kinds=("fim",)) as server:
        yield server


@pytest.fixture
def start(state: Path, start_raw: StartRaw, partner: PartnerServer) -> Start:
    async def begin(sample: float = 1.0, **more: Any) -> RawClient:
        options = {**QUICK, "partner": {"url": partner.url}, "shadow": {"sample": sample}, **more}
        return await start_raw(options, capabilities=CAN)

    return begin


def rows(of: str = "pair") -> list[Row]:
    """What is in a table by now, in the order of the requests."""
    if not usage_file().exists():
        return []
    with closing(sqlite3.connect(usage_file())) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (of,)).fetchone():
            return []  # the server is just making the file
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(_IN_ORDER[of])]


async def rows_once(count: int, of: str = "pair") -> list[Row]:
    """The rows of a table, once there are so many."""
    await until(lambda: len(rows(of)) >= count)
    return rows(of)


async def answered(trigger: str) -> Row:
    """The last pair of that trigger, once the other model has answered."""
    wanted = ("answered", trigger)
    return (await until(lambda: [row for row in rows() if (row["outcome"], row["trigger"]) == wanted]))[-1]


async def shown(client: RawClient, runtime: Path, text: str = MARKED) -> tuple[Typist, Item]:
    user = Typist.at(client, runtime, text)
    return user, await user.offered(invoked=True)


async def test_after_ghost_text_the_partner_is_asked_the_same_unseen(
    start: Start, runtime_folder: Path, partner: PartnerServer, capsys: pytest.CaptureFixture[str]
) -> None:
    client = await start()
    user, item = await shown(client, runtime_folder)
    pair = await answered("asked")
    assert (pair["outcome"], pair["language"], pair["trigger"]) == ("answered", "python", "asked")
    assert (pair["main_model"], pair["other_model"]) == ("embedded", partner.name)
    assert min(pair["main_whole_ms"], pair["other_whole_ms"]) > 0
    assert partner.fills[-1].prefix.endswith("peculiar_total = ")
    put_in(user, item)
    await saved(user)
    await until(lambda: rows("pair_hole")[-1]["main_at_save"] is not None)
    hole = rows("pair_hole")[-1]
    assert hole["main_at_save"] == 1.0
    assert hole["other_at_save"] < 1.0
    assert await client.quit() == 0
    assert [note for note in client.notes if note["method"].startswith("window/showM")] == []
    assert main(["shadow", "report", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert found["lines"][0]["holes"] >= 1


async def test_secrets_are_neither_compared_nor_counted(
    start: Start, partner: PartnerServer, state: Path, tmp_path: Path, runtime_folder: Path
) -> None:
    (tmp_path / ".env").write_text("KEY = ???\n")
    (tmp_path / "link.py").symlink_to(".env")
    client = await start()
    for number, name in enumerate((".env", "link.py")):
        client.open((tmp_path / name).as_uri(), "KEY = ???\n")
        client.complete(number, (tmp_path / name).as_uri(), 0, 6, invoked=True)
        assert (await client.reply(number))["result"]["items"] == []
    assert await client.status()
    assert not state.exists()
    await shown(client, runtime_folder)
    await answered("asked")  # what is asked for first is compared first
    assert not any("KEY" in asked.prefix for asked in partner.fills)
    assert await client.quit() == 0


async def test_no_byte_of_any_text_is_kept(start: Start, runtime_folder: Path, state: Path) -> None:
    client = await start()
    user, item = await shown(client, runtime_folder)
    put_in(user, item)
    await saved(user)
    edits = await Filler(client, HOLES, "peculiar_name.py").command(applies=True)
    for trigger in ("asked", "action"):
        await answered(trigger)
    assert await client.quit() == 0
    held = b"".join(file.read_bytes() for file in state.rglob("*") if file.is_file())
    texts = [edit["newText"].strip() for edit in edits] + [str(item["insertText"]).strip()]
    words = ["peculiar", "numbers", "def size", "typed/", "filled/", "file:", "http", str(Path.home())]
    for word in words + [text for text in texts if len(text) >= 4]:
        assert word.encode() not in held, word


async def test_partner_is_compared_with_embedded(start: Start, runtime_folder: Path, partner: PartnerServer) -> None:
    client = await start(model="partner")
    await shown(client, runtime_folder)
    pair = (await rows_once(1))[-1]
    assert (pair["main_model"], pair["other_model"]) == (partner.name, "embedded")
    assert pair["outcome"] in ("answered", "nothing", "late")
    assert await client.quit() == 0
