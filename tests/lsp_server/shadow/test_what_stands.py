"""The text observed in holes that both models filled, whether or not the user accepted anything."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator

import pytest

from lsp_server.documents.tracking import TextRange
from lsp_server.usage.events import PairLook
from tests.lsp_server.shadow.scene import URI, Scene, scene
from tests.workers import until


@pytest.fixture
async def here(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    async with scene(monkeypatch) as found:
        yield found


async def test_typed_text_is_what_stands(here: Scene) -> None:
    await here.compare("foo(x)")
    for number, letter in enumerate("bar + 1"):
        here.edit(4 + number, 4 + number, letter)
    here.shadow.saved(URI)
    here.edit(11, 11, "0")
    here.shadow.saved(URI)
    assert here.looks == [("save", "bar + 1")], "at the next save, and not again"


async def test_taken_text_stands_without_later_lines(here: Scene) -> None:
    await here.compare("foo(x)")
    here.edit(4, 4, "foo(x)")
    here.edit(10, 10, ".bar")
    here.edit(14, 14, "\ny = 2")
    here.edit(0, 0, "import z\n")
    here.shadow.saved(URI)
    assert here.looks == [("save", "foo(x).bar\n")]


async def test_early_looks_are_compared_later(here: Scene) -> None:
    here.is_computing = True
    here.answer("foo(x)")
    here.edit(4, 4, "foo(x)")
    here.shadow.saved(URI)
    assert here.told == []
    here.is_computing = False
    await here.until_pairs(1)
    (look,) = [event for event in here.told if isinstance(event, PairLook)]
    assert (look.stands, look.hole.main, look.hole.other) == ("foo(x)", "foo(x)", "better(x)")


async def test_it_is_looked_at_some_minutes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene(monkeypatch, later_s=0.3) as here:
        here.answer("foo(x)")
        here.edit(4, 4, "foo(x)")
        await here.until_pairs(1)
        await until(lambda: here.looks)
        here.shadow.saved(URI)
        assert here.looks == [("later", "foo(x)")]


@pytest.mark.parametrize("as_one", [True, False])
async def test_each_hole_of_a_fill_is_seen(monkeypatch: pytest.MonkeyPatch, *, as_one: bool) -> None:
    async with scene(monkeypatch, text="f(???, ???)\n") as here:
        here.worker.fills = None
        here.answer("first", "second")
        if as_one:
            here.edit(0, len(here.document.text), "f(first, second)\n")
        else:
            here.edit(7, 10, "second")
            here.edit(2, 5, "first")
        here.edit(2, 3, "F")
        here.shadow.saved(URI)
        await here.until_asked()
        assert here.worker.requests[0].segments[0].text == "f("
        here.shadow.asked()
        await here.until_pairs(1)
        assert here.looks == [("save", "First"), ("save", "second")]


async def test_a_hole_that_nobody_can_find_again_is_not_guessed(here: Scene) -> None:
    await here.compare("foo(x)")
    here.edit(0, len(here.document.text), "something else altogether, of which nothing is left\n")
    here.shadow.saved(URI)
    assert here.looks == []


async def test_followed_hole_keeps_no_second_document(here: Scene) -> None:
    request = here.request("foo(x)")
    snapshot = weakref.ref(request.snapshot)
    here.shadow.answered(request)
    await here.until_pairs(1)
    del request
    here.edit(4, 4, "foo(x)")
    here.document.snapshot()
    async with asyncio.timeout(30):
        while snapshot() is not None:
            gc.collect()
            await asyncio.sleep(0.01)
    here.shadow.saved(URI)
    assert here.looks == [("save", "foo(x)")]


@pytest.mark.parametrize("is_done", [True, False])
async def test_refined_places_are_left_out(here: Scene, *, is_done: bool) -> None:
    """Its text says nothing of the two models. Fills elsewhere go on."""
    here.is_computing = not is_done
    here.answer("foo(x)")
    here.edit(4, 4, "foo(x)")
    here.answer("(2)", at=len("x = foo(x)\nprint"))
    if is_done:
        await here.until_pairs(2)
    here.shadow.leave_out(URI, places=[TextRange(4, 10)])
    here.is_computing = False
    await here.until_pairs(2 if is_done else 1)
    here.shadow.saved(URI)
    assert len(here.looks) == 1
    assert len(here.pairs) == (2 if is_done else 1)
