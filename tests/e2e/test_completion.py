"""`textDocument/completion`: the fill at the cursor as a list item, for editors that have no ghost text."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from tests import reference
from tests.e2e.conftest import PATIENT, Start
from tests.e2e.raw_client import RawClient, capable
from tests.e2e.user import Item, User
from tests.workers import ATTEMPTS

AS_IS, PLAIN_TEXT = 1, 1
HELIX = capable(
    textDocument__inlineCompletion=None,
    textDocument__completion={"completionItem": {"documentationFormat": ["markdown"]}},
)
"""An editor without ghost text."""


async def asked(user: User) -> Any:
    place = {"textDocument": {"uri": user.uri}, "position": reference.position(user.text, user.cursor, "utf-16")}
    return await user.client.ask("textDocument/completion", {**place, "context": {"triggerKind": 1}})


async def offered(user: User) -> Item:
    """The first item, which replaces what is in its range."""
    for _ in range(ATTEMPTS):
        found = await asked(user)
        assert found["isIncomplete"]
        if found["items"]:
            return found["items"][0]
    raise AssertionError(f"nothing offered in {ATTEMPTS} attempts")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def helix(runtime_folder: Path) -> AsyncIterator[RawClient]:
    client = await RawClient.start(runtime_folder, PATIENT, capabilities=HELIX)
    yield client
    assert await client.quit() == 0


async def test_an_item_is_one_exact_edit_of_the_word_at_the_cursor(helix: RawClient) -> None:
    user = User(helix, "s = '𝔘ñ😀'; label = pri‸\nprint(s)\n")
    item = await offered(user)
    assert reference.span(user.text, item["textEdit"]["range"], "utf-16") == (user.cursor - 3, user.cursor)
    assert item["textEdit"]["newText"].startswith(item["filterText"] or "?")
    assert item["filterText"] == "pri" and "additionalTextEdits" not in item


async def test_an_item_is_first_shows_all_its_text_and_has_a_command(helix: RawClient) -> None:
    item = await offered(User(helix, "def area(radius):\n    return ‸\n"))
    text = item["textEdit"]["newText"]
    assert item["preselect"]
    assert item["sortText"] < "0"
    assert item["labelDetails"]["description"] == "infill"
    assert text.startswith(item["label"].removesuffix("…"))
    documentation = {"kind": "markdown", "value": f"```python\n{text}\n```"}
    assert await helix.ask("completionItem/resolve", item) == {**item, "documentation": documentation}
    assert item["command"]["command"] in helix.can["executeCommandProvider"]["commands"]
    await helix.ask("workspace/executeCommand", {name: item["command"][name] for name in ("command", "arguments")})


async def test_several_lines_are_one_item_that_is_put_in_as_it_is(helix: RawClient) -> None:
    user = User(helix, "def area(radius):‸\r\nprint(area(1))\r\n")
    item = await offered(user)
    text = item["textEdit"]["newText"]
    assert reference.span(user.text, item["textEdit"]["range"], "utf-16") == (user.cursor, user.cursor)
    assert text.startswith("\r\n    ")
    assert "\n" not in text.replace("\r\n", "")
    assert (item["insertTextMode"], item["insertTextFormat"]) == (AS_IS, PLAIN_TEXT)
    assert item["commitCharacters"] == [], "typing on accepts nothing"
    assert item["label"].strip()
    assert "\n" not in item["label"]


async def test_items_that_are_not_ours_come_back_as_they_are(helix: RawClient) -> None:
    item = {"label": "x", "data": {"id": 5}}
    assert await helix.ask("completionItem/resolve", item) == item


async def test_where_nothing_is_wanted_the_list_is_empty(helix: RawClient) -> None:
    assert (await asked(User(helix, "na‸me = value\n")))["items"] == []
    assert (await asked(User(helix, "TOKEN=‸\n", "dotenv", name=".env")))["items"] == []


async def test_completions_are_offered_where_wanted(start: Start, client: RawClient, helix: RawClient) -> None:
    always = await start({**PATIENT, "completion": "always"})
    offered = ["completionProvider" in each.can for each in (client, helix, always)]
    assert offered == [False, True, True]


async def test_an_item_for_a_text_that_has_changed_since_is_not_shown(client: RawClient) -> None:
    """Also where the change comes in the same breath: the item's place would be another."""
    for number in range(3):
        user = User(client, "def area(radius):\n    return \n")
        place = {"textDocument": {"uri": user.uri}, "position": {"line": 1, "character": 11}}
        client.request(f"older {number}", "textDocument/completion", place)
        user.replace(0, 0, "\n")
        assert (await client.reply(f"older {number}"))["result"]["items"] == []
