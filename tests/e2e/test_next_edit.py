"""Next edits over the wire, as sidekick.nvim asks for them, and as a code action: the server and its settings are real.

sidekick.nvim asks `textDocument/copilotInlineEdit`, drops an answer for another version, applies all edits of it, and
then runs the command of each.
"""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from inference.bench.scenarios import RecordedModel
from lsp_server.cli import main
from lsp_server.next_edit.rewrite_filter import REASON
from tests.e2e.conftest import PATIENT, Start
from tests.e2e.raw_client import RawClient, capable
from tests.e2e.user import User
from tests.workers import poll

FIM = Path(__file__).parents[1] / "data" / "fim"
_keys = itertools.count()
TEXT = "def f():\n    count = 1\n    print(count)\n    return count\n"
ASK = "textDocument/copilotInlineEdit"


class Sidekick(User):
    """A user whose client does what sidekick.nvim does."""

    def ask_next(self, version: int | None = None) -> str:
        """Ask for the next edit; the key of the request."""
        key = f"next {self.uri} {next(_keys)}"
        document = {"uri": self.uri, "version": self.version if version is None else version}
        params = {"textDocument": document, "position": {"line": 0, "character": 0}, "context": {"triggerKind": 2}}
        self.client.request(key, ASK, params)
        return key

    async def next_edits(self, key: str | None = None) -> list[dict[str, Any]]:
        return (await self.client.reply(key or self.ask_next()))["result"]["edits"]

    async def next_actions(self) -> Any:
        return await self.actions((0, 0), only="refactor.rewrite.infill.nextEdit")

    def accept(self, edit: dict[str, Any], *, command_first: bool = False) -> None:
        """Show an edit, apply it unless it is for another version, and run its command, `command_first` if so."""
        self.client.send({"method": "textDocument/didShowInlineEdit", "params": {"item": edit}})
        if edit["textDocument"]["version"] != self.version:
            return
        command = {"command": edit["command"]["command"], "arguments": edit["command"]["arguments"]}
        if command_first:
            self.client.request(f"accepted {next(_keys)}", "workspace/executeCommand", command)
        self.apply([{"range": edit["range"], "newText": edit["text"]}])
        if not command_first:
            self.client.request(f"accepted {next(_keys)}", "workspace/executeCommand", command)


@pytest.fixture
def user(client: RawClient) -> Sidekick:
    return Sidekick(client, TEXT)


async def test_a_rename_is_offered_place_by_place(user: Sidekick) -> None:
    user.exchange("count", "total")
    for line in (2, 3):
        (edit,) = await user.next_edits()
        assert edit["textDocument"] == {"uri": user.uri, "version": user.version}
        assert (edit["text"], edit["range"]["start"]["line"]) == ("total", line)
        user.accept(edit)
    assert user.text == TEXT.replace("count", "total")
    assert await user.next_edits() == []


async def test_a_change_reaches_a_file_that_imports_it(user: Sidekick) -> None:
    """Once the user goes there; not before, and not for what they dismiss or take back."""
    text = "from main import f\n\nprint(f())\nf()\n"
    other = Sidekick(user.client, text, uri=user.uri.replace("main.py", "other.py"))
    stranger = Sidekick(user.client, text.replace("main", "json"), uri=user.uri.replace("main.py", "stranger.py"))
    assert await other.next_edits() == []
    user.exchange("def f", "def total")
    assert await user.next_edits() == [] == await stranger.next_edits()
    for line in (0, 2, 3):
        (edit,) = await other.next_edits()
        assert edit["textDocument"] == {"uri": other.uri, "version": other.version}
        assert (edit["text"], edit["range"]["start"]["line"]) == ("total", line)
        other.accept(edit)
    assert other.text == "from main import total\n\nprint(total())\ntotal()\n"
    assert await other.next_edits() == []
    user.exchange("def total", "def g")
    (edit,) = await other.next_edits()
    user.exchange("def g", "def total")
    assert await other.next_edits() == []


async def test_another_version_gets_nothing(user: Sidekick) -> None:
    user.exchange("count", "total")
    assert await user.next_edits(user.ask_next(user.version - 1)) == []
    assert await user.next_edits(user.ask_next(user.version + 1)) == []
    assert len(await user.next_edits()) == 1


async def test_a_dismissed_place_stays_away_and_the_others_come(user: Sidekick) -> None:
    user.exchange("count", "total")
    (first,) = await user.next_edits()
    user.says("infill/didReject", id=user.id(first))
    (second,) = await user.next_edits()
    assert second["range"] != first["range"]
    user.exchange("def f", "def g")
    (again,) = await user.next_edits()
    assert again["range"] == second["range"]


async def test_a_dismissed_place_stays_away_after_undo_and_redo(user: Sidekick) -> None:
    user.exchange("count", "total")
    for _ in range(2):
        (edit,) = await user.next_edits()
        user.says("infill/didReject", id=user.id(edit))
    assert await user.next_edits() == []
    user.exchange("total", "count")
    assert await user.next_edits() == []
    user.exchange("count", "total")
    assert await user.next_edits() == []


async def test_a_dismissed_place_stays_away_in_a_reopened_file(user: Sidekick) -> None:
    """Editors close a file that was only looked at when the user goes to another one."""
    text = "from main import f\n"
    uri = user.uri.replace("main.py", "other.py")
    other = Sidekick(user.client, text, uri=uri)
    user.exchange("def f", "def total")
    (edit,) = await other.next_edits()
    other.says("infill/didReject", id=other.id(edit))
    user.client.send({"method": "textDocument/didClose", "params": {"textDocument": {"uri": uri}}})
    assert await Sidekick(user.client, text, uri=uri).next_edits() == []


@pytest.mark.parametrize("command_first", [False, True])
@pytest.mark.parametrize("redone", [0, 2])
async def test_an_undone_edit_is_rejected(user: Sidekick, *, command_first: bool, redone: int) -> None:
    """And nothing else is offered until the next change. The command may come before the change. After a redo the edit
    counts as accepted again.
    """
    user.exchange("count", "total")
    before = user.text
    (edit,) = await user.next_edits()
    user.accept(edit, command_first=command_first)
    user.exchange("total)", "count)")
    for _ in range(redone):
        user.exchange("count)", "total)")
        user.exchange("total)", "count)")
    assert user.text == before
    assert await user.next_edits() == []
    user.exchange("def f", "def g")
    (other,) = await user.next_edits()
    assert other["range"]["start"]["line"] == 3
    user.accept(other)
    assert await user.next_edits() == []


async def test_a_model_is_asked_where_the_syntax_tells_nothing(start: Start) -> None:
    """A small model that judges edits, whatever it finds; typing stops it, and each request gets one answer."""
    client = await start({**PATIENT, "model": str(FIM)})
    await client.becomes("ready")
    user = Sidekick(client, TEXT)
    user.exchange("return count", "return total(count)")
    first = user.ask_next()
    await user.next_edits(first)
    user.exchange("return total(count)", "return total(count, 2)")
    keys = [user.ask_next() for _ in range(2)]
    user.exchange("f()", "f(x)")
    keys.append(user.ask_next())
    assert [await user.next_edits(key) for key in keys[:2]] == [[], []]
    for edit in await user.next_edits(keys[2]):
        assert edit["textDocument"]["version"] == user.version
    assert all(client.counts[key] == 1 for key in (first, *keys))


async def test_a_code_action_for_editors_that_show_no_places(user: Sidekick) -> None:
    assert await user.next_actions() == []
    user.exchange("count", "total")
    (action,) = await user.next_actions()
    assert action["title"] == "Next edit: rename count to total (line 3)"
    (change,) = action["edit"]["documentChanges"]
    assert change["textDocument"]["version"] == user.version
    assert [edit["newText"] for edit in change["edits"]] == ["total"]
    assert (await user.client.ask("codeAction/resolve", action))["edit"] == action["edit"]


async def test_an_edit_models_rewrite_is_offered_edit_by_edit(start: Start) -> None:
    """And to a code action. The rules find none of it; what is left of one answer needs no other question."""
    text = "def area(w):\n    pass\n\n\ndef main():\n    print(a)\n"
    now = text.replace("w)", "width)")
    new = now.replace("pass", "return width * 2").replace("print(a)", "print(area(3))")
    with RecordedModel("zeta-2", {now: new}).serve() as url:
        user = Sidekick(await start({**PATIENT, "nextEdit": {"model": url}}), text)
        user.exchange("w)", "width)")
        actions = await poll(user.next_actions, bool)
        (first,) = await user.next_edits()
        shown = actions[0]["edit"]["documentChanges"][0]["edits"][0]["newText"]
        assert first["text"] == shown == "return width * 2"
        user.accept(first)
        (second,) = await user.next_edits()
        assert (second["text"], second["command"]["title"]) == ("area(3)", f"Next edit: {REASON}")


async def test_a_code_action_offers_an_edit_that_the_fill_model_judged(start: Start) -> None:
    """The small model finds a text likelier the shorter it is, and the rules do not follow two changes of one line."""
    client = await start({**PATIENT, "model": str(FIM)})
    await client.becomes("ready")
    values = ", ".join(f"value_{index}" for index in range(12))
    user = Sidekick(client, "".join(f"{name} = f({values}, {name}, {values})\n" for name in ("one", "two")))
    user.exchange(f"f({values}, one, {values})", "f(one)")
    actions = await poll(user.next_actions, bool)
    user.apply(actions[0]["edit"]["documentChanges"][0]["edits"])
    assert user.text == "one = f(one)\ntwo = f(two)\n"


async def test_a_client_that_shows_places_itself_gets_no_action(start: Start) -> None:
    user = Sidekick(await start(capabilities=capable(experimental__infillNextEdits=True)), TEXT)
    user.exchange("count", "total")
    assert await user.next_actions() == []
    assert len(await user.next_edits()) == 1


@pytest.mark.parametrize("options", [{"nextEdit": {"enabled": False}}, {"secretGlobs": ["**/main.py"]}])
async def test_nothing_where_it_is_switched_off_or_secret(start: Start, options: dict[str, Any]) -> None:
    user = Sidekick(await start({**PATIENT, **options}), TEXT)
    user.exchange("count", "total")
    assert await user.next_edits() == []
    assert await user.next_actions() == []


async def test_offers_are_counted(start: Start, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    user = Sidekick(await start(), TEXT)
    user.exchange("count", "total")
    user.accept((await user.next_edits())[0])
    (second,) = await user.next_edits()
    user.says("infill/didReject", id=user.id(second))
    assert await user.client.quit() == 0
    main(["stats", "--json"])
    (counted,) = json.loads(capsys.readouterr().out)["trigger"]
    assert {name: counted[name] for name in ("trigger", "shown", "whole", "rejected")} == {
        "trigger": "next edit",
        "shown": 2,
        "whole": 1,
        "rejected": 1,
    }
