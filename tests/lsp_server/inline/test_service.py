"""Who is answered with what, and which work goes on. No worker is asked here: what is computed waits at its context."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from inference.messages import ErrorCode, HoleKind, Snippet
from lsp_server.carve import Span
from lsp_server.documents.change import Change
from lsp_server.documents.document import Document, Edit, Snapshot
from lsp_server.documents.positions import Encoding
from lsp_server.fill.pipeline import Budget
from lsp_server.inline import Answer, ComputationOutcome, InlineRequest, InlineService
from lsp_server.inline.anchor import Anchor
from lsp_server.inline.suggestion import Cursor, Suggestion
from lsp_server.worker import WorkerClient, WorkerFailure, WorkerOptions

URI = "file:///a.py"
TEXT = "x = \ny = \n"
EFFORT = Budget(candidates=3, deadline_ms=1000, max_steps=1)


@dataclass
class Office:
    """A service with one document, and a count of the work that has got as far as its context."""

    begun: int = 0
    stopped: int = 0
    fault: Exception | None = None
    gathering: "asyncio.Future[None]" = field(init=False)
    client: WorkerClient = field(default_factory=lambda: WorkerClient(WorkerOptions(), name="tests"))

    def __post_init__(self) -> None:
        self.document = Document(URI, "python", 1, TEXT)
        self.service = InlineService({URI: self.document}, self, self.gather)
        self.service.open(URI)

    async def loaded(self) -> WorkerClient:
        return self.client

    async def gather(self, _snapshot: Snapshot, _offset: int) -> tuple[Snippet, ...]:
        self.begun += 1
        if self.fault:
            raise self.fault
        try:
            self.gathering = asyncio.get_running_loop().create_future()
            await self.gathering
        finally:
            self.stopped += 1
        return ()

    def ask(self, offset: int = 4, *, invoked: bool = False) -> asyncio.Future[ComputationOutcome]:
        question = InlineRequest(Cursor(offset), EFFORT, "???", invoked=invoked)
        answer: Answer = self.service.ask(URI, question, self.document.snapshot)
        assert isinstance(answer, asyncio.Future)
        return answer

    def know(self, text: str) -> None:
        """A suggestion at the end of the first line was computed before."""
        place, hole = Anchor.of(TEXT, 4, 4, 4), Span(4, 4, HoleKind.LINE, single_line=True)
        self.service._shared.pages[URI].memory.add([Suggestion("s", place, text, hole)])

    def accept(self, text: str, effort: Budget | None = EFFORT) -> None:
        """A suggestion at the end of the first line was accepted: we are told of that first, and then of the change."""
        self.know(text)
        self.service.accepted(URI, "s", None, effort, "???")
        self.document.apply([Edit((0, 4), (0, 4), text)], 2, Encoding.UTF16)
        self.service.changed(URI, [Change(4, "", text)])

    def close(self) -> None:
        self.service.forget(URI)


async def test_the_newer_request_is_answered_and_the_older_one_stopped() -> None:
    office = Office()
    older = office.ask(4)
    await asyncio.sleep(0.01)
    newer = office.ask(9)
    await asyncio.sleep(0.01)
    assert not (await older).found
    assert not newer.done()
    assert (office.begun, office.stopped) == (2, 1)
    office.close()


async def test_a_request_at_the_same_place_takes_over_what_was_begun() -> None:
    office = Office()
    older = office.ask()
    await asyncio.sleep(0.01)
    newer = office.ask()
    await asyncio.sleep(0.01)
    assert older.done()
    assert not newer.done()
    assert (office.begun, office.stopped) == (1, 0)
    office.close()


async def test_what_the_user_asked_for_is_not_stopped_by_what_appears_while_typing() -> None:
    office = Office()
    asked, typed = office.ask(4, invoked=True), office.ask(9)
    await asyncio.sleep(0.01)
    assert not asked.done()
    assert not typed.done()
    assert office.begun == 2
    office.close()


async def test_what_the_user_asks_for_stops_what_appears_while_typing() -> None:
    """Also at the same place: it is worth more effort."""
    office = Office()
    typed = office.ask()
    await asyncio.sleep(0.01)
    asked = office.ask(invoked=True)
    await asyncio.sleep(0.01)
    assert not (await typed).found
    assert not asked.done()
    assert (office.begun, office.stopped) == (2, 1)
    office.close()


@pytest.mark.parametrize("invoked", [False, True])
async def test_a_change_of_the_text_that_disagrees_stops_all(invoked: bool) -> None:
    office = Office()
    asked = office.ask(invoked=invoked)
    await asyncio.sleep(0.01)
    change = Change(2, "= ", "")
    office.document.apply([Edit((0, 2), (0, 4), "")], 2, Encoding.UTF16)
    office.service.changed(URI, [change])
    assert not (await asked).found
    await asyncio.sleep(0.01)
    assert office.stopped == 1


async def test_a_cancelled_request_that_was_not_sent_stops_at_once() -> None:
    office = Office()
    asked = office.ask()
    await asyncio.sleep(0.01)
    asked.cancel()
    await asyncio.sleep(0.01)
    assert office.stopped == 1


async def test_what_is_computed_ahead_gives_way_to_what_is_asked_for() -> None:
    office = Office()
    office.accept("1")
    await asyncio.sleep(0.01)
    assert (office.begun, office.stopped) == (1, 0)
    office.ask(len("x = 1\ny = "))
    await asyncio.sleep(0.01)
    assert (office.begun, office.stopped) == (2, 1)
    office.close()


async def test_what_is_computed_ahead_is_what_the_next_request_waits_for() -> None:
    office = Office()
    office.accept("1")
    office.ask(len("x = 1"))
    await asyncio.sleep(0.01)
    assert (office.begun, office.stopped) == (1, 0)
    office.close()


async def test_nothing_is_computed_ahead_where_the_user_wants_none() -> None:
    office = Office()
    office.accept("1", effort=None)
    await asyncio.sleep(0.01)
    assert office.begun == 0


async def test_what_is_known_is_answered_at_once_and_parses_nothing() -> None:
    """The path of every key: it must cost next to nothing, however long the document is."""
    office = Office()
    office.know("foo")
    office.document.apply([Edit((0, 4), (0, 4), "f")], 2, Encoding.UTF16)
    office.service.changed(URI, [Change(4, "", "f")])
    question = InlineRequest(Cursor(5), EFFORT, "???")
    answer = office.service.ask(URI, question, lambda: pytest.fail("a snapshot was taken"))
    assert isinstance(answer, ComputationOutcome)
    assert [shown.text for _, shown in answer.found] == ["foo"]
    assert office.begun == 0


async def test_closing_the_document_answers_who_waits() -> None:
    office = Office()
    asked = office.ask()
    office.close()
    assert not (await asked).found


async def test_a_fault_is_told_to_who_asked() -> None:
    office = Office(fault=ValueError("a fault"))
    with pytest.raises(ValueError, match="a fault"):
        await office.ask()


async def led_elsewhere(office: Office, snapshot: Callable[[], Snapshot | None]) -> asyncio.Future[ComputationOutcome]:
    """A request that waits for older work, which was typed into and comes to nothing."""
    office.ask()
    await asyncio.sleep(0.01)
    (work,) = office.service._shared.pages[URI].running
    work.sent_at = 0.0
    office.document.apply([Edit((0, 4), (0, 4), "f")], 2, Encoding.UTF16)
    office.service.changed(URI, [Change(4, "", "f")])
    answer = office.service.ask(URI, InlineRequest(Cursor(5), EFFORT, "???"), snapshot)
    assert isinstance(answer, asyncio.Future)
    office.gathering.set_exception(WorkerFailure(ErrorCode.STOPPED, "gone"))
    return answer


async def test_what_leads_elsewhere_is_begun_anew_unless_the_document_was_switched_off_meanwhile() -> None:
    office = Office()
    waiting = await led_elsewhere(office, office.document.snapshot)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    assert office.begun == 2
    office.close()
    office = Office()
    assert not (await (await led_elsewhere(office, lambda: None))).found
    assert office.begun == 1


async def test_a_fault_after_the_worker_has_answered_is_told_too() -> None:
    def snapshot() -> Snapshot:
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"):
        async with asyncio.timeout(10):
            await (await led_elsewhere(Office(), snapshot))
