"""Suggestions at the cursor, and their life while the user types, accepts and rejects; worker and model are real."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests import reference
from tests.e2e.conftest import PATIENT, Start
from tests.e2e.raw_client import RawClient, capable
from tests.e2e.user import User
from tests.workers import ATTEMPTS, poll

CANCELLED = -32800
BODY = "def add(a, b):\n    return ‸\n\n\nprint(add(1, 2))\n"
LONG = "def total(values):\n    result = ‸\n    return result\n"
"""What belongs there has more than a letter or two."""
QUICK = {**PATIENT, "maxSteps": 4, "debounceMs": 0, "suggestions": "eager"}
SLOW = {**QUICK, "maxSteps": 40, "candidates": {"invoked": 8}}
"""A request that still runs when the worker, which was held, reads what was sent to it meanwhile."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def quick(runtime_folder: Path) -> AsyncIterator[RawClient]:
    client = await RawClient.start(runtime_folder, QUICK)
    yield client
    assert await client.quit() == 0


async def test_abandoned_cancelled_request_stops_the_worker(start: Start) -> None:
    user = User(await start(SLOW), "def f(x):‸\n")
    before = await user.requests()
    async with user.client.holding_the_worker():
        asked = user.ask(invoked=True)
        await user.client.has_handed_on()
        user.client.cancel(asked)
        assert (await user.client.reply(asked))["error"]["code"] == CANCELLED
        await poll(user.client.status, lambda status: not status["computing"])
    assert await user.becomes_idle(after=before) == ["cancelled"]


async def test_only_automatic_requests_wait_for_a_pause(start: Start) -> None:
    user = User(await start({**QUICK, "debounceMs": 10_000}), BODY)
    await user.client.becomes("ready")
    asked = await user.requests()
    waiting = user.ask()
    user.client.cancel(waiting)
    assert (await user.client.reply(waiting))["error"]["code"] == CANCELLED
    waiting = user.ask()
    await user.offered(invoked=True)
    assert await user.items(waiting) == [], "something newer came"
    assert user.ended()[asked:].count("cancelled") == 0


async def test_rest_of_a_partly_accepted_one_is_recomputed(quick: RawClient) -> None:
    for _ in range(ATTEMPTS):
        user = User(quick, LONG)  # each time another document: typing a text again is a redo
        item = await user.offered(invoked=True, at_least=3)
        asked = await user.requests()
        taken = user.rest(item)[:2]
        length = len(item["insertText"]) - len(user.rest(item)) + 2
        user.says("infill/didAccept", id=user.id(item), acceptedLength=length)  # before the edit
        user.type(taken)
        assert await user.becomes_idle(after=asked) == ["complete"]
        items = await user.items(user.ask())
        assert all(user.text[user.span(item)[0] :].startswith(taken) for item in items)
        assert await user.requests() == asked + 1, "the old rest, at least, is known"
        if items and user.id(items[0]) != user.id(item):
            return
    raise AssertionError(f"in {ATTEMPTS} attempts the rest was never another one")


async def test_suggestion_extends_the_selected_list_item(quick: RawClient) -> None:
    user = User(quick, "import os\n\nprint(os.pa‸)\n")
    at = {"start": {"line": 2, "character": 9}, "end": {"line": 2, "character": 11}}
    item = await user.offered(selected={"range": at, "text": "path"})
    assert item["insertText"].startswith("path")
    assert len(item["insertText"]) > len("path")
    assert item["range"] == at
    elsewhere = {"range": {"start": at["end"], "end": at["end"]}, "text": "\n"}
    assert await user.items(user.ask(selected=elsewhere)) == []


async def test_drafts_show_the_suggestion_as_it_settles(start: Start) -> None:
    client = await start(SLOW, capabilities=capable(experimental__infillDrafts=True))
    user = User(client, "s = '😀'; total = ‸\n")
    for _ in range(ATTEMPTS):
        user.looks_again()
        items = await user.items(user.ask(invoked=True, workDoneToken="settling"))
        for draft in user.drafts:
            assert (draft["uri"], draft["version"]) == (user.uri, user.version)
            assert (draft["kind"], draft["token"]) == ("inline", "settling")
            assert 0 < draft["step"] <= draft["maxSteps"]
            (hole,) = draft["holes"]
            user.check_draft(hole)
            assert hole["range"] == reference.range_of(user.text, user.cursor, user.cursor, "utf-16")
        if len({draft["step"] for draft in user.drafts}) > 1 and items:
            return
    raise AssertionError("drafts came less than twice before each answer")


async def test_a_notification_that_cannot_be_read_does_no_harm(quick: RawClient) -> None:
    user = User(quick, BODY)
    user.says("infill/didAccept", id=7, acceptedLength=-1)
    user.says("infill/didAccept", id="\ud800", acceptedLength="\ud800")
    user.says("infill/didReject")
    assert await user.offered()


@pytest.mark.parametrize("typed", ["return ", "", "ret"])
async def test_the_rest_of_a_line_or_body_is_offered(client: RawClient, typed: str) -> None:
    user = User(client, f"def add(a, b):\n    {typed}‸\n\n\nprint(add(1, 2))\n")
    for item in (await user.offered(invoked=True), *await user.complete()):
        user.rest(item)
        fill = item["insertText"]
        assert fill.strip()
        assert typed != "return " or "\n" not in fill
        assert typed != "ret" or fill.startswith("ret")


async def test_what_the_user_asked_for_comes_with_a_choice(client: RawClient) -> None:
    user = User(client, BODY)
    asked = [await user.complete() for _ in range(6)]
    by_itself = [await user.complete(invoked=False) for _ in range(6)]
    assert max(map(len, asked)) > 1
    assert max(map(len, by_itself)) == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-32"])
async def test_positions_are_right_in_every_encoding(start: Start, encoding: str) -> None:
    client = await start(capabilities=capable(general__positionEncodings=[encoding]))
    assert client.encoding == encoding
    user = User(client, "s = '𝔘ñ😀'; label = pri‸\nprint(s)\n")
    for item in (await user.offered(invoked=True), *await user.complete()):
        assert user.rest(item) == item["insertText"].removeprefix("pri")
        assert user.span(item)[0] == user.cursor - 3


async def test_a_document_that_is_not_open_is_answered_with_nothing(client: RawClient) -> None:
    client.complete("never opened", "file:///project/never-opened.py", 0, 0)
    assert (await client.reply("never opened"))["result"]["items"] == []
