"""When the other model is asked, what ends that, and one row for each sampled request."""

import asyncio
import math
import random
from collections.abc import AsyncIterator

import pytest

from inference.messages import ErrorCode
from lsp_server.shadow.shadow import MOST_HOLES, MOST_WAITING
from lsp_server.worker import WorkerOptions
from tests.lsp_server.shadow.scene import REWORK, URI, Scene, scene

SHORT_S = 0.1
"""Long enough for a fault to show; nothing that is right depends on it."""


@pytest.fixture
async def here(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    async with scene(monkeypatch) as found:
        yield found


@pytest.mark.parametrize("moment", ["waiting", "running", "done"])
async def test_refined_suggestion_is_left_out(monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Else what the partner wrote there would count for the partner."""
    async with scene(monkeypatch, quiet_s=60.0 if moment == "waiting" else 0.01) as here:
        here.worker.fills = ["better(x)"] if moment == "done" else None
        here.answer("foo(x)", computation="c1")
        if moment == "running":
            await here.until_asked()
        elif moment == "done":
            await here.until_pairs(1)
        here.shadow.leave_out(URI, "another")
        here.shadow.leave_out(URI, "c1")
        here.edit(4, 4, "better(x)")
        here.shadow.saved(URI)
        await here.shadow.close()
        assert (here.outcomes, here.looks) == (["answered"] if moment == "done" else [], [])


async def test_other_model_is_asked_in_the_background(here: Scene) -> None:
    await here.compare("foo(x)")
    (asked,) = here.worker.requests
    assert asked.background
    assert asked.segments[0].text == "x = "
    (pair,) = here.pairs
    assert (pair.outcome, pair.trigger, pair.language) == ("answered", "asked", "python")
    assert (pair.main.model, pair.main.whole_ms) == ("diffusiongemma-26b", 5.0)
    assert pair.other.model == "auto", "the worker has not said which model that is"
    assert pair.other.whole_ms is not None
    (hole,) = pair.holes
    assert (hole.suggestion, hole.kind, hole.main, hole.other) == (100, "line", "foo(x)", "better(x)")


@pytest.mark.parametrize("why", ["sample", "statistics", "no other model", "may not be sent", "rework", "many holes"])
async def test_what_is_not_asked_leaves_no_row(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    text = "f(" + "???, " * (MOST_HOLES + 1) + ")" if why == "many holes" else "x = \n"
    async with scene(monkeypatch, text=text, sample=0.0 if why == "sample" else 1.0) as here:
        here.may = why != "may not be sent"
        if why == "statistics":
            here.statistics = "off"
        elif why == "no other model":
            here.shadow.configure(WorkerOptions(), None)
        texts = ["foo"] * (MOST_HOLES + 1) if why == "many holes" else ["foo"]
        here.answer(*texts, **({"options": REWORK} if why == "rework" else {}))
        await asyncio.sleep(SHORT_S)
        here.shadow.saved(URI)
        assert (here.worker.requests, here.told) == ([], [])


async def test_the_sample_is_the_share_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    count, share = 400, 0.25
    async with scene(monkeypatch, sample=share, seed=11) as here:
        for _ in range(count):
            here.answer("foo(x)")
        chance = random.Random(11)
        expected = sum(chance.random() < share for _ in range(count))
        await here.until_pairs(expected)
        await asyncio.sleep(SHORT_S)
        assert len(here.pairs) == expected, "one row for each, and none for the others"
        assert abs(expected - count * share) < 4 * math.sqrt(count * share * (1 - share))


async def test_it_waits_while_anything_is_computed_for_the_user(here: Scene) -> None:
    here.is_computing = True
    here.answer("foo(x)")
    await asyncio.sleep(SHORT_S)
    assert here.worker.requests == []
    here.is_computing = False
    with here.shadow.held():
        await asyncio.sleep(SHORT_S)
        assert here.worker.requests == []
    await here.until_pairs(1)


async def test_a_key_puts_off_when_the_other_model_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(monkeypatch, quiet_s=3600.0) as here:
        here.answer("foo(x)")
        here.edit(4, 4, "f")
        here.shadow.asked()
        await asyncio.sleep(SHORT_S)
        assert here.worker.requests == [], "not before all has been quiet for so long"
    async with scene(monkeypatch) as here:
        here.answer("foo(x)")
        here.edit(4, 4, "f")
        await here.until_pairs(1)
        assert here.worker.requests[0].segments[0].text == "x = ", "as it stood when the main model was asked"


@pytest.mark.parametrize("switched_off", ["statistics", "sample"])
async def test_what_waits_is_not_asked_once_it_was_switched_off(here: Scene, switched_off: str) -> None:
    here.is_computing = True
    here.answer("foo(x)")
    if switched_off == "statistics":
        here.statistics = "off"
    else:
        here.sample = 0.0
    here.is_computing = False
    here.shadow.asked()
    await asyncio.sleep(SHORT_S)
    assert (here.worker.requests, here.told) == ([], [])


async def test_one_is_asked_after_the_other(here: Scene) -> None:
    here.worker.fills = None
    here.answer("first(x)")
    here.answer("second(x)")
    await here.until_asked(1)
    await asyncio.sleep(SHORT_S)
    assert len(here.worker.requests) == 1
    here.worker.answer("better(x)")
    await here.until_asked(2)
    here.worker.answer("better(x)")
    await here.until_pairs(2)
    assert [pair.holes[0].main for pair in here.pairs] == ["first(x)", "second(x)"]


@pytest.mark.parametrize("by_worker", [True, False])
async def test_a_request_of_the_user_or_the_worker_ends_it(here: Scene, by_worker: bool) -> None:
    here.worker.fills = None
    here.answer("foo(x)")
    await here.until_asked()
    here.worker.stop() if by_worker else here.shadow.asked()
    await here.until_pairs(1)
    assert here.outcomes == ["stopped"]
    assert here.pairs[0].holes[0].other is None


async def test_no_more_than_some_wait(here: Scene) -> None:
    here.is_computing = True
    for number in range(MOST_WAITING + 4):
        here.answer(f"foo({number})")
    assert [pair.holes[0].main for pair in here.pairs] == [f"foo({number})" for number in range(4)]
    assert set(here.outcomes) == {"stopped"}


@pytest.mark.parametrize("is_running", [False, True])
async def test_what_is_closed_leaves_no_row(here: Scene, *, is_running: bool) -> None:
    faults: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(str(context)))
    here.worker.fills = None
    here.is_computing = not is_running
    here.answer("foo(x)")
    if is_running:
        await here.until_asked()
    here.shadow.forget(here.document.uri)
    here.is_computing = False
    await asyncio.sleep(SHORT_S)
    assert (faults, here.told) == ([], [])


async def test_a_failure_is_a_row_with_its_code_and_none_of_its_words(here: Scene) -> None:
    here.worker.fills = None
    here.answer("foo(x)")
    await here.until_asked()
    here.worker.refuse(ErrorCode.SERVER, "/home/me/secret is not there")
    await here.until_pairs(1)
    assert (here.outcomes, here.pairs[0].error) == (["failed"], "server")
    assert "secret" not in repr(here.pairs)


async def test_empty_and_late_answers_differ(here: Scene) -> None:
    here.worker.fills = []
    await here.compare("foo(x)")
    here.worker.fills = ["better(x)"]
    here.answer("foo(x)", deadline_ms=0)
    await here.until_pairs(2)
    assert here.outcomes == ["nothing", "late"]
    assert [pair.holes[0].other for pair in here.pairs] == [None, "better(x)"]
