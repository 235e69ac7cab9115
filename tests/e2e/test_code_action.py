"""`textDocument/codeAction` offers immediately, `codeAction/resolve` fills: only the holes change."""

import re
from typing import Any

import pytest

from tests import reference
from tests.e2e.conftest import Start
from tests.e2e.raw_client import EVERYWHERE, Place, RawClient, Refused, between, capable
from tests.e2e.user import NOTHING_FITS, REQUEST_FAILED, User

THREE = "def area(radius):\n    return ???\n\n\nsides = [???]\nprint(area(2), len(sides), ???)\n"
FILL = "refactor.rewrite.infill"
FUNCTIONS = """\
import math


def area(radius):
    squared = ???
    return ???


def perimeter(radius):
    return 2 * math.pi * radius


print(???)
"""
ONE = "def area(radius):\n    return ???\n"
FUNCTION, FILE = "Fill the 2 holes of this function together", "Fill the 3 holes of this file together"
REWORKS = [f"Rework the selection: {way}" for way in ("lightly", "halfway", "freely")]
MISSING = "def area(radius):\n    pass\n\n\ndef side(area):\n    raise NotImplementedError\n"


@pytest.mark.parametrize(
    ("text", "at", "titles"),
    [
        (FUNCTIONS, [(4, 15)], ["Fill this hole", FUNCTION, FILE]),
        (FUNCTIONS, [(3, 2)], [FUNCTION, FILE]),
        (FUNCTIONS, [(12, 7)], ["Fill this hole", FILE]),
        (FUNCTIONS, [(5, 0), (12, 20)], ["Fill the 2 holes in the selection together", FILE]),
        (ONE, [(1, 11)], ["Fill this hole"]),
        (ONE, [(0, 1)], ["Fill the hole of this function"]),
        ("sides = [one, two]\n", [(0, 9), (0, 17)], REWORKS),
        (MISSING, [(1, 6)], ["Fill this hole", "Fill the 2 holes of this file together"]),
        ("x = 1\n", [(0, 0)], []),
    ],
)
async def test_what_can_be_filled_here_is_offered(
    client: RawClient, text: str, at: list[Place], titles: list[str]
) -> None:
    actions = await User(client, text).actions(*at)
    assert [action["title"] for action in actions] == titles
    assert not any({"edit", "command"} & set(action) for action in actions), "the model has not been asked"


async def test_actions_say_that_a_model_writes_them(start: Start) -> None:
    for known, tags in (([1], [1]), ([], None)):
        client = await start(capabilities=capable(textDocument__codeAction__tagSupport={"valueSet": known}))
        (action,) = await User(client, THREE).actions((3, 0))
        assert action.get("tags") == tags


async def test_only_the_kinds_that_were_asked_for_are_offered(client: RawClient) -> None:
    user = User(client, THREE)
    for only in (["refactor"], [FILL], [f"{FILL}.fillFile"], ["quickfix", "refactor"], [""]):
        assert len(await user.actions((3, 0), only=only)) == 1, only
    for only in (["quickfix"], [f"{FILL}.fillHole"], ["refactor.rewrite.i"], []):
        assert await user.actions((3, 0), only=only) == [], only


async def test_a_function_that_has_a_body_can_be_rewritten(client: RawClient) -> None:
    """An unasked light bulb stays off inside of it."""
    user = User(client, FUNCTIONS.replace("???", "radius"))
    assert await user.actions((9, 8), triggerKind=2) == []
    for at, asked in (((8, 8), {"triggerKind": 2}), ((9, 8), {})):
        (action,) = await user.actions(at, **asked)
        assert (action["title"], action["kind"]) == ("Rewrite this body", f"{FILL}.writeBody")
    (edit,) = await user.surely_resolved(action)
    assert edit["range"] == between((9, 4), (9, 31))


async def test_the_statement_under_a_diagnostic_can_be_repaired(client: RawClient) -> None:
    async def offered(user: User, first: Place, last: Place) -> list[dict[str, Any]]:
        return await user.actions(first, only="quickfix", diagnostics=[{**complaint, "range": between(first, last)}])

    complaint = {"message": "invalid syntax"}
    user = User(client, "total = 0\nfor item in items:\n    total + = item\n")
    (action,) = await offered(user, (2, 12), (2, 13))
    assert (action["title"], action["kind"]) == ("Repair this statement", "quickfix.infill")
    assert action["diagnostics"] == [{**complaint, "range": between((2, 12), (2, 13))}]
    (edit,) = await user.surely_resolved(action)
    assert (edit["range"]["start"]["line"], edit["range"]["end"]["line"]) == (2, 2)
    assert edit["newText"] != "total + = item"
    assert await offered(User(client, "total = ???\n"), (0, 8), (0, 11)) == [], "a complaint about a marker"


async def test_client_that_cannot_resolve_gets_commands(start: Start) -> None:
    client = await start(capabilities=capable(textDocument__codeAction__resolveSupport=None))
    user = User(client, THREE)
    (action,) = await user.actions((3, 0))
    assert (action["title"], action.get("data")) == ("Fill the 3 holes of this file together", None)
    name, (argument,) = action["command"]["command"].removeprefix("infill-ls."), action["command"]["arguments"]
    client.answers["workspace/applyEdit"] = user.put_in
    done = await client.command(name, argument)
    assert done["applied"] or done["reason"].startswith(NOTHING_FITS)
    assert re.fullmatch(".+".join(map(re.escape, THREE.split("???"))), user.text, re.DOTALL)
    user.retype("x = 1\n" + THREE)
    assert (await client.command(name, argument))["applied"] is False
    assert client.shown[-1] == "infill-ls: the file has changed since the request; try again", "nobody reads the answer"


async def test_client_that_neither_resolves_nor_applies_gets_none(start: Start) -> None:
    can = capable(textDocument__codeAction__resolveSupport=None, workspace__applyEdit=False)
    assert await User(await start(capabilities=can), THREE).actions((3, 0)) == []


async def test_a_client_without_versioned_edits_gets_plain_changes(start: Start) -> None:
    user = User(await start(capabilities=capable(workspace__workspaceEdit={})), THREE)
    (action, *_) = await user.actions(*EVERYWHERE)
    edits = await user.surely_resolved(action)
    spans = [reference.span(user.text, edit["range"], user.client.encoding) for edit in edits]
    assert spans and all(user.text[start:end].strip() == "???" for start, end in spans)
    reference.pieces_around(user.text, sorted(spans))
    assert set(user.edits[-1]) == {"changes"}


async def test_an_action_without_data_comes_back_as_it_is(client: RawClient) -> None:
    action = {"title": "of another server", "command": {"title": "c", "command": "other.command"}}
    assert await client.ask("codeAction/resolve", action) == action


async def test_an_action_of_an_older_text_is_refused(client: RawClient) -> None:
    user = User(client, THREE)
    (action,) = await user.actions(*EVERYWHERE, only=FILL)
    user.retype("x = 1\n" + THREE)
    with pytest.raises(Refused, match="the file has changed") as refused:
        await user.resolved(action)
    assert refused.value.code == REQUEST_FAILED
