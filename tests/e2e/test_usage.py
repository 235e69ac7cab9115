"""`infill-ls stats` after real sessions: the figures match what was seen, done and kept, and contain no text."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from inference.bench.infilling_tasks import edit_similarity
from lsp_server.cli import main
from tests.e2e.conftest import PATIENT, StartRaw
from tests.e2e.raw_client import CAN, RawClient
from tests.e2e.typist import CURSOR, Item, Typist
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


@dataclass
class Ledger:
    """What a user has seen and done, as the test knows it."""

    offers: set[str] = field(default_factory=set)
    rejected: set[str] = field(default_factory=set)
    answers: int = 0

    async def offered(self, user: Typist) -> Item:
        """A suggestion that is long enough to be taken in parts; those that are not are rejected."""
        for _ in range(8):
            items = await user.items(user.ask(invoked=True))
            if items:
                self.answers += 1
                self.offers.add(computation(items[0]))
            if items and len(user.rest(items[0]).strip()) >= 4:
                return items[0]
            for item in items:
                user.says("infill/didReject", id=user.id(item))
                self.rejected.add(computation(item))
        raise AssertionError("nothing offered that is long enough")


def computation(item: Item) -> str:
    return Typist.id(item).rpartition(".")[0]


def put_in(user: Typist, item: Item, characters: int | None = None) -> str:
    """Put an item into the text, or the first characters that are new of it. What is new in the text."""
    start, end = user.span(item)
    new = user.rest(item)[:characters]
    if characters is None:
        before, text = user.cursor, str(item["insertText"])
        user.replace(start, end, text)
        return user.text[before : start + len(text)]
    user.type(new)
    return new


async def saved(user: Typist) -> None:
    user.says("textDocument/didSave")
    await user.client.status()  # it has been seen


@pytest_asyncio.fixture(loop_scope="session")
async def client(state: Path, start_raw: StartRaw) -> RawClient:
    return await start_raw(QUICK, capabilities=CAN)


async def test_the_figures_are_what_the_session_did(client: RawClient, runtime_folder: Path, stats: Stats) -> None:
    ledger = Ledger()
    user = Typist.at(client, runtime_folder, LONG)
    item = await ledger.offered(user)
    whole = put_in(user, item)
    user.says("infill/didAccept", id=user.id(item))
    await saved(user)
    user.delete(1)
    await saved(user)  # the first save after it counts

    user = Typist.at(client, runtime_folder, LONG)
    item = await ledger.offered(user)
    user.says("infill/didAccept", id=user.id(item), acceptedLength=len(user.rest(item)[:3]))
    part = put_in(user, item, 3)
    user.type("zz")
    user.replace(user.cursor - 5, user.cursor - 4, "##")
    stands = "##" + part[1:]
    await saved(user)

    user = Typist.at(client, runtime_folder, LONG)
    ledger.rejected.add(computation(item := await ledger.offered(user)))
    user.says("infill/didReject", id=user.id(item))

    assert await client.quit() == 0
    found = stats()
    total = found["total"]
    assert total["shown"] == len(ledger.offers)
    assert (total["whole"], total["part"], total["rejected"]) == (1, 1, len(ledger.rejected))
    assert total["neither"] == len(ledger.offers) - 2 - len(ledger.rejected)
    assert total["taken_characters"] == len(whole) + len(part)
    similarities = [1.0, edit_similarity(stands, part)]
    assert total["at_save"] == {"seen": 2, "similarity": round(sum(similarities) / 2, 4), "unchanged": 1}
    assert total["later"] == {"seen": 0, "similarity": None, "unchanged": 0}
    kept = round(len(whole) * similarities[0] + len(part) * similarities[1])
    assert (total["kept_characters"], total["unseen_characters"]) == (kept, 0)
    assert total["latency_ms"]["computed"]["whole"]["answers"] == ledger.answers
    assert total["latency_ms"]["computed"]["first_draft"]["answers"] == 0, "this client shows no drafts"
    assert list(found["by_language"]) == ["python"]
    assert list(found["by_kind"]) == ["line"]
    assert list(found["by_trigger"]) == ["asked"]
    assert [one["shown"] for one in found["by_day"].values()] == [len(ledger.offers)]


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


async def test_each_hole_counts_where_the_editor_applies_it(start_raw: StartRaw, state: Path, stats: Stats) -> None:
    client = await start_raw(QUICK, capabilities={**CAN, "experimental": {"infillDrafts": True}})
    applied, refused, chosen = (Filler(client, HOLES) for _ in range(3))
    first = await applied.command(applies=True)
    client.send({"method": "textDocument/didSave", "params": {"textDocument": {"uri": applied.uri}}})
    second = await refused.command(applies=False)
    third = await chosen.action()
    chosen.apply(third)
    await client.status()
    assert await client.quit() == 0
    found = stats()
    total = found["total"]
    assert total["shown"] == len(first) + len(second) + len(third)
    assert (total["whole"], total["rejected"]) == (len(first) + len(third), len(second))
    assert total["taken_characters"] == sum(len(each["newText"]) for each in first + third)
    assert total["at_save"] == {"seen": len(first), "similarity": 1.0, "unchanged": len(first)}
    times = total["latency_ms"]["computed"]
    assert times["first_draft"]["answers"] == times["whole"]["answers"] == 3
    assert 0 < times["first_draft"]["p50"] < times["whole"]["p50"]
    assert list(found["by_trigger"]) == ["action"]


async def test_saved_notebook_looks_at_its_cells(client: RawClient, runtime_folder: Path, stats: Stats) -> None:
    notebook, cell = {"uri": "file:///n.ipynb"}, "vscode-notebook-cell:/n.ipynb#1"
    user = Typist(client, runtime_folder, LONG.replace(CURSOR, ""), LONG.index(CURSOR), uri=cell)
    opened = {**notebook, "notebookType": "x", "version": 1, "cells": [{"kind": 2, "document": cell}]}
    document = {"uri": cell, "languageId": "python", "version": 1, "text": user.text}
    params = {"notebookDocument": opened, "cellTextDocuments": [document]}
    client.send({"method": "notebookDocument/didOpen", "params": params})
    put_in(user, await Ledger().offered(user))
    client.send({"method": "notebookDocument/didSave", "params": {"notebookDocument": notebook}})
    await client.status()
    assert await client.quit() == 0
    assert stats()["total"]["at_save"] == {"seen": 1, "similarity": 1.0, "unchanged": 1}


async def test_where_it_is_off_nothing_is_recorded(start_raw: StartRaw, stats: Stats, state: Path) -> None:
    off = await start_raw({**QUICK, "statistics": "off"}, capabilities=CAN)
    await Filler(off, HOLES).command(applies=True)
    assert await off.quit() == 0
    assert stats()["total"]["shown"] == 0
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
