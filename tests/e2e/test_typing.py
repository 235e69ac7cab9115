"""The life of a suggestion while the user types, accepts and rejects; with the real worker and model."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from lsp_server.inline.document_state import GRACE_S
from tests.e2e.conftest import StartRaw
from tests.e2e.typist import CURSOR, Typist
from tests.workers import ATTEMPTS

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANCELLED = -32800
BODY = "def add(a, b):\n    return ‸\n\n\nprint(add(1, 2))\n"
LONG = "def total(values):\n    result = ‸\n    return result\n"
"""What belongs there has more than a letter or two."""
FOLLOWED = (
    "import os\n\n\ndef size(path):\n    return ‸\n",
    LONG,
    "class Stack:\n    def __init__(self, items):\n        self.items = ‸\n",
    "import os\n\nfor name in os.listdir(‸\n",
    "def first(values):\n    if len(values) ‸\n        return None\n",
    "def mean(values):\n    return sum(values) ‸\n",
)
"""Where something may follow once a suggestion is accepted; the model continues the same text in the same way."""
LIMITS = {"automatic": 60_000, "invoked": 60_000}
QUICK = {"deadlineMs": LIMITS, "maxSteps": 4, "debounceMs": 0, "confidenceFloor": 0, "idleSeconds": 30}
SLOW = {**QUICK, "maxSteps": 40, "candidates": {"invoked": 8}}
"""A request that still runs when the worker, which was held, reads what was sent to it meanwhile."""
OTHER = "~"
"""What no model would suggest here."""


async def test_typing_the_suggested_characters_asks_the_worker_nothing(
    start_raw: StartRaw, runtime_folder: Path
) -> None:
    user = Typist.at(await start_raw(QUICK), runtime_folder, LONG)
    item = await user.offered(at_least=2, invoked=True)
    wanted, asked = user.applied(item), await user.requests()
    while len(rest := user.rest(item)) > 1:
        user.type(rest[0])
        (item,) = await user.items(user.ask())
        assert user.applied(item) == wanted
    assert await user.requests() == asked


async def test_deleting_back_and_moving_text_asks_nothing(start_raw: StartRaw, runtime_folder: Path) -> None:
    user = Typist.at(await start_raw(QUICK), runtime_folder, BODY)
    item = await user.offered(at_least=1)
    wanted, asked = user.applied(item), await user.requests()
    user.type(OTHER)
    user.delete(1)
    cursor = user.cursor
    user.replace(0, 0, "import os\n")
    user.cursor += cursor
    assert [user.applied(item) for item in await user.items(user.ask())] == ["import os\n" + wanted]
    assert await user.requests() == asked


async def test_typed_text_is_pinned_while_computing(start_raw: StartRaw, runtime_folder: Path) -> None:
    """As editors do it: a key, the old request cancelled, a new one. The worker sees one request."""
    user = Typist.at(await start_raw(SLOW), runtime_folder, BODY)
    for _ in range(ATTEMPTS):
        asked = await user.requests()
        async with user.client.holding_the_worker():
            first = user.ask(invoked=True)
            await user.client.has_handed_on()
            user.type("m")
            user.client.cancel(first)
            assert (await user.client.reply(first))["error"]["code"] == CANCELLED
            second = user.ask(invoked=True)
        items = await user.items(second)
        if items and await user.becomes_idle(after=asked) == ["complete"]:
            assert all(item["insertText"][: -len(user.rest(item))].endswith("m") for item in items)
            return
        user.delete(1)
    raise AssertionError(f"in {ATTEMPTS} attempts the second request never took over what the first began")


async def test_a_request_that_nobody_cancels_is_answered_with_the_rest(
    start_raw: StartRaw, runtime_folder: Path
) -> None:
    user = Typist.at(await start_raw(SLOW), runtime_folder, BODY)
    for _ in range(ATTEMPTS):
        async with user.client.holding_the_worker():
            asked = user.ask(invoked=True)
            await user.client.has_handed_on()
            user.type("m")
        items = await user.items(asked)
        if items:
            assert all(user.rest(item) for item in items)
            return
        user.delete(1)
    raise AssertionError(f"nothing offered in {ATTEMPTS} attempts")


async def test_what_is_typed_elsewhere_stops_it(start_raw: StartRaw, runtime_folder: Path) -> None:
    user = Typist.at(await start_raw(SLOW), runtime_folder, BODY)
    before = await user.requests()
    async with user.client.holding_the_worker():
        asked = user.ask(invoked=True)
        await user.client.has_handed_on()
        user.delete(1)
        assert await user.items(asked) == []
    assert await user.becomes_idle(after=before) == ["cancelled"]


async def test_abandoned_cancelled_request_stops_the_worker(start_raw: StartRaw, runtime_folder: Path) -> None:
    user = Typist.at(await start_raw(SLOW), runtime_folder, "def f(x):‸\n")
    before = await user.requests()
    async with user.client.holding_the_worker():
        asked = user.ask(invoked=True)
        await user.client.has_handed_on()
        user.client.cancel(asked)
        assert (await user.client.reply(asked))["error"]["code"] == CANCELLED
        await asyncio.sleep(2 * GRACE_S)
    assert await user.becomes_idle(after=before) == ["cancelled"]


async def test_only_automatic_requests_wait_for_a_pause(start_raw: StartRaw, runtime_folder: Path) -> None:
    user = Typist.at(await start_raw({**QUICK, "debounceMs": 10_000}), runtime_folder, BODY)
    await user.client.becomes("ready")
    asked = await user.requests()
    waiting = user.ask()
    user.client.cancel(waiting)
    assert (await user.client.reply(waiting))["error"]["code"] == CANCELLED
    waiting = user.ask()
    await user.offered(invoked=True)
    assert await user.items(waiting) == [], "something newer came"
    assert user.told()[asked:].count("cancelled") == 0


async def test_prefetched_after_an_accepted_suggestion(start_raw: StartRaw, runtime_folder: Path) -> None:
    user = Typist.at(await start_raw(QUICK), runtime_folder, FOLLOWED[0])
    for marked in FOLLOWED:
        user.replace(0, len(user.text), marked.replace(CURSOR, ""))
        user.cursor = marked.index(CURSOR)
        item = await user.offered(invoked=True)
        asked = await user.requests()
        first, end = user.span(item)
        user.replace(first, end, item["insertText"])
        command = item["command"]
        params = {"command": command["command"], "arguments": command["arguments"]}
        user.client.request(user.id(item), "workspace/executeCommand", params)
        assert "result" in await user.client.reply(user.id(item))
        assert await user.becomes_idle(after=asked) == ["complete"]
        if await user.items(user.ask()) and await user.requests() == asked + 1:
            return
    raise AssertionError("no suggestion arrived in time after any accepted one")


async def test_rest_of_a_partly_accepted_one_is_recomputed(start_raw: StartRaw, runtime_folder: Path) -> None:
    client = await start_raw(QUICK)
    for _ in range(ATTEMPTS):
        user = Typist.at(client, runtime_folder, LONG)  # each time another document: typing a text again is a redo
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


async def test_what_was_turned_down_comes_back_only_on_request(start_raw: StartRaw, runtime_folder: Path) -> None:
    user = Typist.at(await start_raw(QUICK), runtime_folder, BODY)
    item = await user.offered()
    assert [again["insertText"] for again in await user.items(user.ask())] == [item["insertText"]]
    user.says("infill/didReject", id=user.id(item))
    for _ in range(2):
        assert item["insertText"] not in [again["insertText"] for again in await user.items(user.ask())]


async def test_nothing_appears_by_itself_after_an_undo(start_raw: StartRaw, runtime_folder: Path) -> None:
    user = Typist.at(await start_raw(QUICK), runtime_folder, BODY)
    await user.offered()
    user.type("first")
    user.delete(len("first"))
    asked = await user.requests()
    assert await user.items(user.ask()) == []
    assert await user.requests() == asked
    assert await user.offered(invoked=True)


async def test_nothing_the_model_is_unsure_of_appears_by_itself(start_raw: StartRaw, runtime_folder: Path) -> None:
    user = Typist.at(await start_raw({**QUICK, "maxSteps": 1, "confidenceFloor": 1}), runtime_folder, BODY)
    for _ in range(2):
        assert await user.items(user.ask()) == []
    item = await user.offered(invoked=True)
    assert [again["insertText"] for again in await user.items(user.ask())] == [item["insertText"]], "it was shown"


async def test_suggestion_extends_the_selected_list_item(start_raw: StartRaw, runtime_folder: Path) -> None:
    user = Typist.at(await start_raw(QUICK), runtime_folder, "import os\n\nprint(os.pa‸)\n")
    at = {"start": {"line": 2, "character": 9}, "end": {"line": 2, "character": 11}}
    item = await user.offered(selected={"range": at, "text": "path"})
    assert item["insertText"].startswith("path")
    assert len(item["insertText"]) > len("path")
    assert item["range"] == at
    elsewhere = {"range": {"start": at["end"], "end": at["end"]}, "text": "\n"}
    assert await user.items(user.ask(selected=elsewhere)) == []


async def test_empty_body_is_suggested_behind_its_header(start_raw: StartRaw, runtime_folder: Path) -> None:
    user = Typist.at(await start_raw(QUICK), runtime_folder, "def add(a, b):‸\n")
    item = await user.offered()
    assert item["insertText"].startswith("\n    ")
    wanted, asked = user.applied(item), await user.requests()
    user.type("\n    ")
    assert [user.applied(item) for item in await user.items(user.ask())] == [wanted]
    assert await user.requests() == asked


async def test_drafts_show_the_suggestion_as_it_settles(start_raw: StartRaw, runtime_folder: Path) -> None:
    client = await start_raw(SLOW, capabilities={"experimental": {"infillDrafts": True}})
    user = Typist.at(client, runtime_folder, "s = '😀'; total = ‸\n")
    for _ in range(ATTEMPTS):
        client.notes.clear()
        items = await user.items(user.ask(invoked=True, workDoneToken="settling"))
        said = [note["params"] for note in client.notes if note["method"] == "infill/draft"]
        for draft in said:
            assert (draft["uri"], draft["version"]) == (user.uri, user.version)
            assert (draft["kind"], draft["token"]) == ("inline", "settling")
            assert 0 < draft["step"] <= draft["maxSteps"]
            check_hole(user, draft["holes"])
        if len({draft["step"] for draft in said}) > 1 and items:
            return
    raise AssertionError("drafts came less than twice before each answer")


def check_hole(user: Typist, holes: list[dict[str, Any]]) -> None:
    """One hole at the cursor, its text in pieces with a probability each."""
    (hole,) = holes
    at = {"line": 0, "character": len("s = 'xx'; total = ")}
    assert hole["range"] == {"start": at, "end": at}
    assert hole["text"] == "".join(hole["pieces"])
    assert len(hole["pieces"]) == len(hole["confidences"])
    assert all(0 <= confidence <= 1 for confidence in hole["confidences"])


async def test_storm_of_keys_gets_one_answer_each(start_raw: StartRaw, runtime_folder: Path) -> None:
    """Typing, deleting, asking and cancelling at random, so that work is taken over, amended and dropped."""
    user = Typist.at(await start_raw({**QUICK, "maxSteps": 8}), runtime_folder, BODY)
    chance, cancelled = random.Random(3), dict[str, bool]()
    for _ in range(60):
        if chance.random() < 0.8:
            user.type(chance.choice("abself. (")) if chance.random() < 0.8 else user.delete(1)
        key = user.ask(invoked=chance.random() < 0.3)
        cancelled[key] = chance.random() < 0.6
        await asyncio.sleep(chance.choice([0, 0, 0.02, 0.1]))
        if cancelled[key]:
            user.client.cancel(key)
    for key, may_fail in cancelled.items():
        reply = await user.client.reply(key)
        assert "result" in reply or (may_fail and reply["error"]["code"] == CANCELLED)
    await user.requests()  # once the worker has none
    assert {user.client.counts[key] for key in cancelled} == {1}


async def test_a_notification_that_cannot_be_read_does_no_harm(start_raw: StartRaw, runtime_folder: Path) -> None:
    user = Typist.at(await start_raw(QUICK), runtime_folder, BODY)
    user.says("infill/didAccept", id=7, acceptedLength=-1)
    user.says("infill/didAccept", id="\ud800", acceptedLength="\ud800")
    user.says("infill/didReject")
    assert await user.offered()
