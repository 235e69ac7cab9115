"""Next edits over the wire, as sidekick.nvim asks for them, and as a code action: the server and its settings are real.

sidekick.nvim asks `textDocument/copilotInlineEdit`, drops an answer for another version, applies all edits of it, and
then runs the command of each.
"""

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from lsprotocol.types import Position

from inference.bench.edit_models import RecordedModel, Rewrite
from lsp_server.cli import main
from lsp_server.next_edit.rewriting import WHY
from lsp_server.usage.usage import STATE_VARIABLE
from tests.e2e import reference
from tests.e2e.conftest import PATIENT, StartRaw
from tests.e2e.raw_client import CAN, RawClient
from tests.e2e.typist import replaced

FIM = Path(__file__).parents[1] / "data" / "fim"
_keys = itertools.count()
TEXT = "def f():\n    count = 1\n    print(count)\n    return count\n"
ASK = "textDocument/copilotInlineEdit"


class Sidekick:
    """A client that does what sidekick.nvim does. `text` is what the user sees."""

    def __init__(self, client: RawClient, text: str, uri: str = "") -> None:
        self.client, self.text, self.version = client, text, 1
        self.uri = uri or f"file:///project/{next(_keys)}/main.py"
        client.open(self.uri, text)

    def replace(self, start: int, end: int, text: str) -> None:
        self.version += 1
        self.text = replaced(self.client, self.uri, self.version, self.text, start, end, text)

    def type(self, piece: str, text: str) -> None:
        start = self.text.index(piece)
        self.replace(start, start + len(piece), text)

    def ask(self, version: int | None = None) -> str:
        """Ask for the next edit; the key of the request."""
        key = f"next {self.uri} {next(_keys)}"
        document = {"uri": self.uri, "version": self.version if version is None else version}
        params = {"textDocument": document, "position": {"line": 0, "character": 0}, "context": {"triggerKind": 2}}
        self.client.request(key, ASK, params)
        return key

    async def edits(self, key: str | None = None) -> list[dict[str, Any]]:
        return (await self.client.reply(key or self.ask()))["result"]["edits"]

    async def actions(self) -> Any:
        return await self.client.actions(self.uri, (0, 0), only="refactor.rewrite.infill.nextEdit")

    def accept(self, edit: dict[str, Any]) -> None:
        """Show an edit, apply it unless it is for another version, and run its command."""
        self.client.send({"method": "textDocument/didShowInlineEdit", "params": {"item": edit}})
        if edit["textDocument"]["version"] != self.version:
            return
        places = (Position(**edit["range"][end]) for end in ("start", "end"))
        start, end = (reference.offset(self.text, at, "utf-16") for at in places)
        self.replace(start, end, edit["text"])
        command = {"command": edit["command"]["command"], "arguments": edit["command"]["arguments"]}
        self.client.request(f"accepted {next(_keys)}", "workspace/executeCommand", command)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(runtime_folder: Path) -> AsyncIterator[RawClient]:
    client = await RawClient.start(runtime_folder, PATIENT, capabilities=CAN)
    yield client
    assert await client.quit() == 0


@pytest.fixture
def user(client: RawClient) -> Sidekick:
    return Sidekick(client, TEXT)


async def test_a_rename_is_offered_place_by_place(user: Sidekick) -> None:
    user.type("count", "total")
    for line in (2, 3):
        (edit,) = await user.edits()
        assert edit["textDocument"] == {"uri": user.uri, "version": user.version}
        assert (edit["text"], edit["range"]["start"]["line"]) == ("total", line)
        user.accept(edit)
    assert user.text == TEXT.replace("count", "total")
    assert await user.edits() == []


async def test_a_change_reaches_a_file_that_imports_it(user: Sidekick) -> None:
    """Once the user goes there; not before, and not for what they dismiss or take back."""
    text = "from main import f\n\nprint(f())\nf()\n"
    other = Sidekick(user.client, text, user.uri.replace("main.py", "other.py"))
    stranger = Sidekick(user.client, text.replace("main", "json"), user.uri.replace("main.py", "stranger.py"))
    assert await other.edits() == []
    user.type("def f", "def total")
    assert await user.edits() == [] == await stranger.edits()
    for line in (0, 2, 3):
        (edit,) = await other.edits()
        assert edit["textDocument"] == {"uri": other.uri, "version": other.version}
        assert (edit["text"], edit["range"]["start"]["line"]) == ("total", line)
        other.accept(edit)
    assert other.text == "from main import total\n\nprint(total())\ntotal()\n"
    assert await other.edits() == []
    user.type("def total", "def g")
    (edit,) = await other.edits()
    user.type("def g", "def total")
    assert await other.edits() == []


async def test_another_version_gets_nothing(user: Sidekick) -> None:
    user.type("count", "total")
    assert await user.edits(user.ask(user.version - 1)) == []
    assert await user.edits(user.ask(user.version + 1)) == []
    assert len(await user.edits()) == 1


async def test_a_dismissed_place_stays_away_and_the_others_come(user: Sidekick) -> None:
    user.type("count", "total")
    (first,) = await user.edits()
    params = {"textDocument": {"uri": user.uri}, "id": first["command"]["arguments"][0]}
    user.client.send({"method": "infill/didReject", "params": params})
    (second,) = await user.edits()
    assert second["range"] != first["range"]
    user.type("def f", "def g")
    (again,) = await user.edits()
    assert again["range"] == second["range"]


async def test_an_undone_edit_is_rejected(user: Sidekick) -> None:
    """And nothing else is offered until the next change."""
    user.type("count", "total")
    before = user.text
    (edit,) = await user.edits()
    user.accept(edit)
    user.type("total)", "count)")
    assert user.text == before
    assert await user.edits() == []
    user.type("def f", "def g")
    (other,) = await user.edits()
    assert other["range"]["start"]["line"] == 3
    user.accept(other)
    assert await user.edits() == []


async def test_nothing_typed_meanwhile_is_overwritten(user: Sidekick) -> None:
    """Typing, asking and accepting in any order: all that was typed stands, and what was accepted is a whole name."""
    random_ = random.Random(7)
    typed = 0
    user.type("count", "total")
    pending: list[str] = []
    for _ in range(40):
        match random_.randrange(3):
            case 0:
                user.replace(len(user.text), len(user.text), "#")
                typed += 1
            case 1:
                pending.append(user.ask())
            case _ if pending:
                for edit in await user.edits(pending.pop(random_.randrange(len(pending)))):
                    user.accept(edit)
    while edits := await user.edits():
        user.accept(edits[0])
    assert user.text == TEXT.replace("count", "total") + "#" * typed


async def test_a_model_is_asked_where_the_syntax_tells_nothing(start_raw: StartRaw) -> None:
    """A small model that judges edits, whatever it finds; typing stops it, and each request gets one answer."""
    client = await start_raw({**PATIENT, "model": str(FIM)}, capabilities=CAN)
    await client.becomes("ready")
    user = Sidekick(client, TEXT)
    user.type("return count", "return total(count)")
    first = user.ask()
    await user.edits(first)
    user.type("return total(count)", "return total(count, 2)")
    keys = [user.ask() for _ in range(2)]
    user.type("f()", "f(x)")
    keys.append(user.ask())
    assert [await user.edits(key) for key in keys[:2]] == [[], []]
    for edit in await user.edits(keys[2]):
        assert edit["textDocument"]["version"] == user.version
    assert all(client.counts[key] == 1 for key in (first, *keys))


async def test_a_code_action_for_editors_that_show_no_places(user: Sidekick) -> None:
    assert await user.actions() == []
    user.type("count", "total")
    (action,) = await user.actions()
    assert action["title"] == "Next edit: rename count to total (line 3)"
    (change,) = action["edit"]["documentChanges"]
    assert change["textDocument"]["version"] == user.version
    assert [edit["newText"] for edit in change["edits"]] == ["total"]
    assert (await user.client.ask("codeAction/resolve", action))["edit"] == action["edit"]


async def test_an_edit_models_rewrite_is_offered_edit_by_edit(start_raw: StartRaw) -> None:
    """The rules find none of it; what is left of one answer needs no other question."""
    text = "def area(w):\n    pass\n\n\ndef main():\n    print(a)\n"
    now = text.replace("w)", "width)")
    new = now.replace("pass", "return width * 2").replace("print(a)", "print(area(3))")
    with RecordedModel("zeta-2", [Rewrite(now, new)]).served() as url:
        user = Sidekick(await start_raw({**PATIENT, "nextEdit": {"model": url}}, capabilities=CAN), text)
        user.type("w)", "width)")
        (first,) = await user.edits()
        assert first["text"] == "return width * 2"
        user.accept(first)
        (second,) = await user.edits()
        assert (second["text"], second["command"]["title"]) == ("area(3)", f"Next edit: {WHY}")


async def test_a_code_action_offers_what_an_edit_model_has_found(start_raw: StartRaw) -> None:
    now = "def area(width):\n    pass\n"
    with RecordedModel("zeta-2", [Rewrite(now, now.replace("pass", "return width"))]).served() as url:
        user = Sidekick(
            await start_raw({**PATIENT, "nextEdit": {"model": url}}, capabilities=CAN), now.replace("width", "w")
        )
        user.type("w)", "width)")
        async with asyncio.timeout(60):
            while not (actions := await user.actions()):
                await asyncio.sleep(0.05)
        assert [edit["newText"] for edit in actions[0]["edit"]["documentChanges"][0]["edits"]] == ["return width"]


async def test_a_client_that_shows_places_itself_gets_no_action(start_raw: StartRaw) -> None:
    can = {**CAN, "experimental": {"infillNextEdits": True}}
    user = Sidekick(await start_raw(PATIENT, capabilities=can), TEXT)
    user.type("count", "total")
    assert await user.actions() == []
    assert len(await user.edits()) == 1


@pytest.mark.parametrize("options", [{"nextEdit": {"enabled": False}}, {"secretGlobs": ["**/main.py"]}])
async def test_nothing_where_it_is_switched_off_or_secret(start_raw: StartRaw, options: dict[str, Any]) -> None:
    user = Sidekick(await start_raw({**PATIENT, **options}, capabilities=CAN), TEXT)
    user.type("count", "total")
    assert await user.edits() == []
    assert await user.actions() == []


async def test_offers_are_counted(
    start_raw: StartRaw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    user = Sidekick(await start_raw(PATIENT, capabilities=CAN), TEXT)
    user.type("count", "total")
    user.accept((await user.edits())[0])
    (second,) = await user.edits()
    params = {"textDocument": {"uri": user.uri}, "id": second["command"]["arguments"][0]}
    user.client.send({"method": "infill/didReject", "params": params})
    assert await user.client.quit() == 0
    main(["stats", "--json"])
    (counted,) = json.loads(capsys.readouterr().out)["trigger"]
    assert {name: counted[name] for name in ("trigger", "shown", "whole", "rejected")} == {
        "trigger": "next edit",
        "shown": 2,
        "whole": 1,
        "rejected": 1,
    }
