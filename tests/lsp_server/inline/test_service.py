"""The answer to each request, and the surviving computations, in a real session whose worker answers when told to."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from inference.deadline import Deadline
from inference.messages import ErrorCode
from lsp_server.fill.pipeline import FillBudget
from lsp_server.inline import Cursor, InlineRequest, InlineService, ShownSuggestions
from lsp_server.session import Session
from tests.lsp_server.inline.scripted_worker import ScriptedWorker
from tests.lsp_server.test_session import BUDGET, types_text, working
from tests.workers import until

TEXT = "x = \ny = \n"
SETTLED_S = 0.25
"""For so long, nothing else may begin or stop."""


@dataclass
class Scene:
    """A session with one document, whose path is a link that may come to lead elsewhere."""

    session: Session
    worker: ScriptedWorker
    link: Path

    def __post_init__(self) -> None:
        self.uri = self.link.as_uri()
        self.service = self.session.feature(InlineService)
        self.session.open(self.uri, "python", 1, TEXT)

    def ask(
        self, offset: int = 4, *, invoked: bool = False, budget: FillBudget = BUDGET, pause_s: float = 0.0
    ) -> asyncio.Future[ShownSuggestions]:
        request = InlineRequest(Cursor(offset), budget.restarted(), "???", invoked=invoked, pause_s=pause_s)
        answer = self.service.complete(self.uri, request)
        assert isinstance(answer, asyncio.Future)
        return answer

    def edit(self, start: int, end: int, text: str) -> None:
        types_text(self.session, text, start, self.uri, end)

    async def settles(self, *, sent: int, cancelled: int = 0) -> None:
        """So many requests reach the worker and are cancelled there, and no more in the next moment."""
        expected = (sent, cancelled)
        await until(lambda: (len(self.worker.requests), len(self.worker.cancelled)) == expected)
        await asyncio.sleep(SETTLED_S)
        assert (len(self.worker.requests), len(self.worker.cancelled)) == expected

    async def know(self, text: str) -> str:
        """The worker has suggested `text` at the end of the first line; the suggestion's id."""
        asked = self.ask()
        await until(lambda: len(self.worker.requests) == 1)
        self.worker.answer(text)
        ((suggestion, _),) = await asked
        return suggestion.id

    async def accept(self, text: str) -> None:
        """A suggestion at the end of the first line was accepted: the editor says so first, and then puts it in."""
        self.service.accept(self.uri, await self.know(text))
        self.edit(4, 4, text)

    async def is_led_elsewhere(self) -> asyncio.Future[ShownSuggestions]:
        """A request that waits for an older computation, which is typed into and then finds nothing."""
        self.ask()
        await until(lambda: len(self.worker.requests) == 1)
        self.edit(4, 4, "f")
        return self.ask(5, pause_s=60)


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Scene]:
    link = tmp_path / "a.py"
    link.symlink_to("main.py")
    async with working(monkeypatch) as (session, worker):
        await session.worker.client.load()  # no deadline waits for that
        yield Scene(session, worker, link)


@pytest.mark.parametrize(("cursor", "invoked"), [(9, False), (4, True)], ids=["elsewhere", "asked for by the user"])
async def test_the_newer_request_stops_the_older_one(scene: Scene, cursor: int, invoked: bool) -> None:
    older = scene.ask(4)
    await scene.settles(sent=1)
    newer = scene.ask(cursor, invoked=invoked)
    await scene.settles(sent=2, cancelled=1)
    assert not await older
    assert not newer.done()


async def test_closing_the_document_answers_who_waits(scene: Scene) -> None:
    asked = scene.ask()
    scene.session.forget_document(scene.uri)
    assert not await asked


async def test_request_at_the_same_place_takes_over(scene: Scene) -> None:
    older = scene.ask()
    await scene.settles(sent=1)
    newer = scene.ask()
    await until(older.done)
    await scene.settles(sent=1)
    assert not newer.done()


async def test_invoked_request_survives_automatic_ones(scene: Scene) -> None:
    asked, typed = scene.ask(4, invoked=True), scene.ask(9)
    await scene.settles(sent=2)
    assert not asked.done()
    assert not typed.done()


@pytest.mark.parametrize("invoked_runs", [False, True])
async def test_late_automatic_request_waits_for_no_computation(scene: Scene, invoked_runs: bool) -> None:
    """Neither for its own, whose worker says nothing, nor for one that the user asked for and that may take longer."""
    asked = scene.ask(invoked=True) if invoked_runs else None
    typed = scene.ask(budget=FillBudget(candidates=3, deadline=Deadline(50), max_steps=1))
    async with asyncio.timeout(10):
        assert not await typed
    await scene.settles(sent=1)
    assert asked is None or not asked.done()


@pytest.mark.parametrize("invoked", [False, True])
async def test_a_change_of_the_text_that_disagrees_stops_all(scene: Scene, invoked: bool) -> None:
    asked = scene.ask(invoked=invoked)
    await scene.settles(sent=1)
    scene.edit(2, 4, "")
    assert not await asked
    await scene.settles(sent=1, cancelled=1)


async def test_a_cancelled_request_that_was_not_sent_stops_at_once(scene: Scene) -> None:
    asked = scene.ask(pause_s=60)
    assert scene.service.is_computing
    asked.cancel()
    await asyncio.sleep(0)
    assert not scene.service.is_computing
    await scene.settles(sent=0)


@pytest.mark.parametrize(
    ("before", "sent", "cancelled"), [("x = 1", 2, 0), ("x = 1\ny = ", 3, 1)], ids=["there", "elsewhere"]
)
async def test_a_prefetch_is_waited_for_or_gives_way(scene: Scene, before: str, sent: int, cancelled: int) -> None:
    await scene.accept("1")
    await scene.settles(sent=2)
    scene.ask(len(before))
    await scene.settles(sent=sent, cancelled=cancelled)


async def test_nothing_is_prefetched_where_the_user_wants_none(scene: Scene) -> None:
    scene.session.configuration.set_editor_settings({"prefetch": False})
    await scene.accept("1")
    await scene.settles(sent=1)


async def test_change_in_the_same_statement_asks_again(scene: Scene) -> None:
    await scene.know("foo")
    scene.edit(0, 1, "z")
    scene.worker.fills = ["bar"]
    assert [shown.text for _, shown in await scene.ask()] == ["bar"]
    assert len(scene.worker.requests) == 2


async def test_an_answer_that_begins_with_what_is_typed_is_shown(scene: Scene) -> None:
    asked = scene.ask()
    await scene.settles(sent=1)
    scene.worker.draft("fo")
    for number, letter in enumerate("foo"):  # up to more than the draft has
        scene.edit(4 + number, 4 + number, letter)
        await scene.settles(sent=1)
    scene.worker.answer("foo()")
    assert [shown.text for _, shown in await asked] == ["foo()"]


@pytest.mark.parametrize("is_late", [False, True], ids=["known before", "known after"])
@pytest.mark.parametrize("invoked", [False, True])
async def test_what_a_draft_contradicts_is_asked_again_at_once(scene: Scene, invoked: bool, is_late: bool) -> None:
    asked = scene.ask(invoked=invoked)
    await scene.settles(sent=1)
    if not is_late:
        scene.worker.draft("bar")
        await scene.settles(sent=1)
    scene.edit(4, 4, "f")
    if is_late:
        scene.worker.draft("bar")
    await scene.settles(sent=2, cancelled=1)
    scene.worker.answer("foo")
    assert [shown.text for _, shown in await asked] == ["foo"]


async def test_nothing_is_asked_again_for_nobody(scene: Scene) -> None:
    asked = scene.ask()
    await scene.settles(sent=1)
    asked.cancel()
    scene.edit(4, 4, "f")
    scene.worker.draft("bar")
    await scene.settles(sent=1, cancelled=1)


async def test_all_who_wait_share_the_new_computation(scene: Scene) -> None:
    asked = scene.ask(invoked=True)
    await scene.settles(sent=1)
    scene.edit(4, 4, "f")
    typed = scene.ask(5)
    scene.worker.answer("bar")
    await scene.settles(sent=2)
    scene.worker.answer("foo")
    assert [[shown.text for _, shown in await each] for each in (asked, typed)] == [["foo"]] * 2


async def test_a_fault_is_told_to_who_asked(scene: Scene) -> None:
    asked = scene.ask()
    await scene.settles(sent=1)
    scene.worker.answer_without_texts()
    with pytest.raises(IndexError):
        await asked


async def test_repeated_failure_is_logged_once(scene: Scene, log: pytest.LogCaptureFixture) -> None:
    failures = [f"gone, next try in {seconds} s" for seconds in (3, 2, 1)]
    for end, failure in enumerate((*failures, None, *failures), start=4):
        asked = scene.ask(end)
        await until(lambda sent=end - 3: len(scene.worker.requests) == sent)
        scene.worker.refuse(ErrorCode.INTERNAL, failure) if failure else scene.worker.answer("1")
        await asked
        scene.edit(end, end, "2")  # and not what was suggested
    warnings = {record.created: record.getMessage() for record in log.records if record.levelname == "WARNING"}
    assert list(warnings.values()) == ["no inline completion: gone, next try in 3 s"] * 2


async def test_switched_off_document_ends_computations(scene: Scene) -> None:
    waiting = await scene.is_led_elsewhere()
    scene.link.unlink()
    scene.link.symlink_to(".env")
    scene.worker.answer()
    assert not await waiting
    await scene.settles(sent=1)


async def test_what_leads_elsewhere_is_begun_again_and_a_fault_is_told(scene: Scene) -> None:
    waiting = await scene.is_led_elsewhere()
    scene.worker.answer()
    await scene.settles(sent=2)
    assert not waiting.done()
    scene.worker.answer_without_texts()
    with pytest.raises(IndexError):
        async with asyncio.timeout(10):
            await waiting
