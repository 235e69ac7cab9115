"""`infill-ls stats` after real sessions: the figures match what was seen and done."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from lsp_server.cli import main
from tests.e2e.conftest import PATIENT, StartRaw
from tests.e2e.raw_client import CAN, RawClient
from tests.e2e.typist import Item, Typist
from tests.workers import until

ALONE = {"debounceMs": 0, "confidenceFloor": 0, "prefetch": False, "candidates": {"invoked": 1}}
QUICK = {**PATIENT, "maxSteps": 4, **ALONE}
LONG = "def total(values):\n    remarkable_result = ‸\n    return remarkable_result\n"
HOLES = "def size(path):\n    return ???\n\n\nprint(???)\n"
EVERYWHERE = {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}
Stats = Callable[..., dict[str, Any]]


@pytest.fixture
def stats(state: Path, capsys: pytest.CaptureFixture[str]) -> Stats:
    def run(*more: str) -> dict[str, Any]:
        capsys.readouterr()
        main(["stats", "--json", *more])
        return json.loads(capsys.readouterr().out)

    return run


def put_in(user: Typist, item: Item, characters: int | None = None) -> None:
    """Put an item into the text, or the first characters that are new of it."""
    start, end = user.span(item)
    if characters is None:
        user.replace(start, end, str(item["insertText"]))
    else:
        user.type(user.rest(item)[:characters])


async def offered(user: Typist) -> tuple[Item, int]:
    """A suggestion that is long enough to be taken in parts, and how many were rejected since they are not."""
    for rejected in range(8):
        first, *_ = await user.items(user.ask(invoked=True)) or [None]
        if first and len(user.rest(first).strip()) >= 4:
            return first, rejected
        user.says("infill/didReject", id=user.id(first)) if first else None
    raise AssertionError("nothing offered that is long enough")


@pytest_asyncio.fixture(loop_scope="session")
async def client(state: Path, start_raw: StartRaw) -> RawClient:
    return await start_raw(QUICK, capabilities=CAN)


async def test_the_figures_are_what_the_session_did(client: RawClient, runtime_folder: Path, stats: Stats) -> None:
    user = Typist.at(client, runtime_folder, LONG)
    item, rejected = await offered(user)
    put_in(user, item)
    user.says("infill/didAccept", id=user.id(item))

    user = Typist.at(client, runtime_folder, LONG)
    item, more = await offered(user)
    user.says("infill/didAccept", id=user.id(item), acceptedLength=len(user.rest(item)[:3]))
    put_in(user, item, 3)

    user = Typist.at(client, runtime_folder, LONG)
    item, most = await offered(user)
    user.says("infill/didReject", id=user.id(item))

    assert await client.quit() == 0
    found = stats()
    (total,), (language,), (trigger,) = (found[name] for name in ("total", "language", "trigger"))
    assert (total["whole"], total["part"], total["rejected"]) == (1, 1, rejected + more + most + 1)
    assert total["shown"] == total["whole"] + total["part"] + total["rejected"]
    assert total["mean ms"] > 0
    assert (language["language"], trigger["trigger"]) == ("python", "asked")


class Filler:
    """Asks for fills of a document that holds `text`, and answers the server's edits as an editor does."""

    def __init__(self, client: RawClient, text: str, name: str = "main.py") -> None:
        self.client, self.text, self.version = client, text, 1
        self.uri = f"file:///filled/{id(self)}/{name}"
        client.open(self.uri, text)

    async def command(self, *, applies: bool) -> list[Any]:
        place = {"uri": self.uri, "range": EVERYWHERE}
        key, seen = f"fill {len(self.client.notes)}", len(self.client.notes)
        self.client.request(key, "workspace/executeCommand", {"command": "infill-ls.fillFile", "arguments": [place]})
        (asked,) = await until(lambda: [it for it in self.client.notes[seen:] if it["method"] == "workspace/applyEdit"])
        edits = self.edits_of(asked["params"]["edit"])
        if applies:
            self.apply(edits)
        self.client.send({"id": asked["id"], "result": {"applied": applies}})
        assert (await self.client.reply(key))["result"]["applied"] is applies
        return edits

    async def action(self) -> list[Any]:
        """Choose the first code action at the first hole; the edits that it makes."""
        offered = await self.client.actions(self.uri, (0, 0), (9, 0))
        chosen = next(each for each in offered if each["kind"].endswith("fillHole"))
        return self.edits_of((await self.client.ask("codeAction/resolve", chosen))["edit"])

    def edits_of(self, edit: dict[str, Any]) -> list[Any]:
        return list(edit["documentChanges"][0]["edits"])

    def apply(self, edits: list[Any]) -> None:
        """As one change for each edit, the last place first."""
        self.version += 1
        changes = [{"range": each["range"], "text": each["newText"]} for each in reversed(edits)]
        params = {"textDocument": {"uri": self.uri, "version": self.version}, "contentChanges": changes}
        self.client.send({"method": "textDocument/didChange", "params": params})


async def test_a_fill_counts_where_the_editor_applies_it(client: RawClient, stats: Stats) -> None:
    applied, refused, chosen = (Filler(client, HOLES) for _ in range(3))
    await applied.command(applies=True)
    await refused.command(applies=False)
    chosen.apply(await chosen.action())
    await client.status()
    assert await client.quit() == 0
    (counted,) = stats()["trigger"]
    assert (counted["trigger"], counted["shown"], counted["whole"], counted["rejected"]) == ("action", 3, 2, 1)


async def test_where_it_is_off_nothing_is_recorded(start_raw: StartRaw, stats: Stats, state: Path) -> None:
    off = await start_raw({**QUICK, "statistics": "off"}, capabilities=CAN)
    await Filler(off, HOLES).command(applies=True)
    assert await off.quit() == 0
    assert stats()["total"] == []
    assert not state.exists()


async def test_unwritable_statistics_are_reported_once(start_raw: StartRaw, state: Path) -> None:
    state.write_text("in the way")
    client = await start_raw(QUICK, capabilities=CAN)
    for _ in range(2):
        await Filler(client, HOLES).command(applies=True)
        await until(lambda: client.shown)
    assert await client.quit() == 0
    (told,) = client.shown
    assert str(state) in told and "`statistics`" in told
