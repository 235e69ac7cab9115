"""The inline completions of one document: what is remembered of them, what is being computed, who waits for it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from inference.messages import Draft, Snippet
from lsp_server.documents.change import Change
from lsp_server.documents.document import Document, Snapshot
from lsp_server.fill.pipeline import FillResult, fill
from lsp_server.inline.anchor import Anchor
from lsp_server.inline.computation import NOTHING, Computation, ComputationOutcome, PendingReply
from lsp_server.inline.debounce import Debounce
from lsp_server.inline.history import SuggestionHistory
from lsp_server.inline.hole import hole_for
from lsp_server.inline.request import Drafted, InlineRequest, TakeSnapshot
from lsp_server.inline.suggestion import Cursor
from lsp_server.lsp.replies import describe
from lsp_server.worker import WorkerClient, WorkerFailure

log = logging.getLogger(__name__)
GRACE_S = 0.3
"""So long after its request was cancelled, work waits for the next request."""
Gather = Callable[[Snapshot, int], Awaitable[tuple[Snippet, ...]]]
"""Context from other files for a hole at an offset; it takes its time, but not long."""


async def nothing_gathered(_snapshot: Snapshot, _offset: int) -> tuple[Snippet, ...]:
    """No context."""
    return ()


class Workers(Protocol):
    """The line to the worker."""

    @property
    def client(self) -> WorkerClient:
        """The client, in whatever state."""

    async def loaded(self) -> WorkerClient:
        """The client, once its worker has loaded its model."""


@dataclass
class Shared:
    """What all documents of a session share."""

    workers: Workers
    gather: Gather
    debounce: Debounce = field(default_factory=Debounce)
    pages: "dict[str, InlineDocument]" = field(default_factory=dict)

    def all_running(self) -> "Iterable[tuple[InlineDocument, Computation]]":
        """All work, with the document that it is for."""
        return [(page, work) for page in self.pages.values() for work in page.running]


class InlineDocument:
    """One open document."""

    def __init__(self, document: Document, shared: Shared) -> None:
        self.document = document
        self.memory = SuggestionHistory(document.text)
        self.running: list[Computation] = []
        self._shared = shared

    def supersede(self, *, keep_invoked: bool) -> None:
        """Answer who waits with nothing: something newer has come. The work itself goes on for now."""
        for work in self.running:
            for waiter in tuple(work.waiters):
                if not (keep_invoked and waiter.question.invoked):
                    waiter.answer(NOTHING)
                    work.waiters.remove(waiter)

    def answer(
        self, question: InlineRequest, snapshot: TakeSnapshot
    ) -> "ComputationOutcome | asyncio.Future[ComputationOutcome]":
        """From memory, from work that is under way, or by new work. `snapshot` is only called where it is needed."""
        if self.memory.after_undo and not question.invoked:
            return NOTHING
        text = self.document.text
        found = self._find(text, question, question.cursor.offset)
        if found and (not question.invoked or _is_a_choice(found)):
            self.memory.show(found.found, text, invoked=question.invoked)
            return found
        waiter = PendingReply(question, snapshot, question.cursor.offset, asyncio.get_running_loop().create_future())
        running = next((work for work in self.running if work.is_for(text, question)), None)
        if running is not None:
            self._wait(running, waiter, joined=True)
            return waiter.outcome
        return waiter.outcome if self._begin_for(waiter) else NOTHING

    def follow(self, changes: Sequence[Change]) -> None:
        """The text has changed: keep the work that the changes agree with, and tell the worker what was typed."""
        self.memory.changed(changes, self.document.text)
        for work in tuple(self.running):
            before = work.typed
            for change in changes:
                for waiter in work.waiters:
                    waiter.cursor = change.move(waiter.cursor)
            if not all(work.takes(change) for change in changes):
                self.end(work)
            elif work.typed != before:
                self._amend(work)

    def begin(self, work: Computation, pause_s: float = 0.0, *, drafts: bool = False) -> None:
        """Ask the worker, after a pause."""
        self.running.append(work)
        work.task = asyncio.create_task(self._compute(work, pause_s, drafts=drafts))

    def end(self, work: Computation) -> None:
        """Stop `work`; who still waits for it gets nothing."""
        if work not in self.running:
            return
        self._put_away(work)
        if work.task is not None:
            work.task.cancel()
        if work.sent_at is not None and not work.ahead:
            self._shared.debounce.filled(_now() - work.sent_at, used=False)
        for waiter in work.waiters:
            waiter.answer(NOTHING)

    def _find(self, text: str, question: InlineRequest, offset: int) -> ComputationOutcome:
        cursor = question.cursor if offset == question.cursor.offset else Cursor(offset)
        limit = question.effort.candidates
        found = self.memory.find(text, cursor, invoked=question.invoked, floor=question.floor, limit=limit)
        return ComputationOutcome(found, self.document.lines)

    def _begin_for(self, waiter: PendingReply) -> bool:
        """New work for a request; False where there is no hole. It comes before all that is computed ahead."""
        question, snapshot = waiter.question, waiter.snapshot()
        if snapshot is None:
            return False
        cursor = question.cursor if waiter.cursor == question.cursor.offset else Cursor(waiter.cursor)
        hole = hole_for(snapshot, cursor, question.marker)
        if hole is None:
            return False
        for page, work in self._shared.all_running():
            if work.ahead and not work.waiters:
                page.end(work)
        place = Anchor.of(snapshot.text, hole.start, hole.end, cursor.offset)
        work = Computation(
            snapshot, hole, place, question.effort, question.invoked, question.marker, selected=cursor.selected
        )
        pause_s = 0.0 if question.invoked else self._shared.debounce.wait_s(question.pause_s, _now())
        self.begin(work, pause_s, drafts=question.on_draft is not None)
        self._wait(work, waiter, joined=False)
        return True

    def _wait(self, work: Computation, waiter: PendingReply, *, joined: bool) -> None:
        waiter.joined = joined
        work.waiters.append(waiter)
        if work.grace is not None:
            work.grace.cancel()
            work.grace = None

        def ended(outcome: "asyncio.Future[ComputationOutcome]") -> None:
            if outcome.cancelled():
                self._left(work, waiter)

        waiter.outcome.add_done_callback(ended)

    def _left(self, work: Computation, waiter: PendingReply) -> None:
        """A request was cancelled: its work waits a moment for another one."""
        if waiter in work.waiters:
            work.waiters.remove(waiter)
        if work not in self.running or work.waiters or work.ahead:
            return
        if work.sent_at is None:
            self.end(work)
        else:
            work.grace = asyncio.get_running_loop().call_later(GRACE_S, self.end, work)

    async def _compute(self, work: Computation, pause_s: float, *, drafts: bool) -> None:
        try:
            filled = await self._asked(work, pause_s, drafts=drafts)
            if work in self.running:
                self._filled(work, filled)
        except Exception as error:  # a fault of ours: it is theirs to tell who asked, and nobody may wait for ever
            self._failed(work, error)

    async def _asked(self, work: Computation, pause_s: float, *, drafts: bool) -> FillResult:
        """What the worker says; nothing where it fails."""

        def show(draft: Draft) -> None:
            self._show(work, draft)

        try:
            workers = self._shared.workers
            worker = await workers.loaded() if work.invoked else workers.client
            gathering = self._shared.gather(work.snapshot, work.hole.start)  # no pause is longer for it
            context, _ = await asyncio.gather(gathering, asyncio.sleep(pause_s))
            work.sent_at = _now()
            return await fill(
                worker,
                work.snapshot,
                [work.hole],
                work.effort,
                request_id=work.id,
                on_draft=show if drafts else None,
                context=context,
                marker=work.marker,
            )
        except WorkerFailure as failure:
            log.warning("no inline completion: %s", failure)
            return FillResult([], late=False)

    def _failed(self, work: Computation, error: Exception) -> None:
        if work in self.running:
            self._put_away(work)
        if all(waiter.outcome.done() for waiter in work.waiters):
            log.error("an inline completion failed: %s", describe(error))
        for waiter in work.waiters:
            waiter.fail(error)

    def _filled(self, work: Computation, filled: FillResult) -> None:
        """Remember what was computed, and answer those who wait for it with what of it goes on from what is typed."""
        self._put_away(work)
        self.memory.add(work.suggestions(filled))
        text, used = self.document.text, False
        for waiter in work.waiters:
            found = self._find(text, waiter.question, waiter.cursor)
            if not found and waiter.joined and work.is_amended:  # it led elsewhere: compute what this one asked for
                if not self._begin_for(waiter):
                    waiter.answer(NOTHING)
                continue
            self.memory.show(found.found, text, invoked=waiter.question.invoked)
            waiter.answer(found)
            used = used or bool(found)
        if not work.ahead and work.sent_at is not None:
            self._shared.debounce.filled(_now() - work.sent_at, used=used)

    def _amend(self, work: Computation) -> None:
        said = work.amendment()
        try:
            if said is not None:
                self._shared.workers.client.amend(work.id, 0, said)
        except WorkerFailure as failure:
            log.info("could not amend: %s", failure)  # whoever waits learns of it, too

    def _put_away(self, work: Computation) -> None:
        self.running.remove(work)
        if work.grace is not None:
            work.grace.cancel()

    def _show(self, work: Computation, draft: Draft) -> None:
        for waiter in work.waiters:
            if waiter.question.on_draft is not None and not waiter.outcome.done():
                waiter.question.on_draft(draft, Drafted(work.snapshot, work.hole, work.place, waiter.cursor))


def _is_a_choice(found: ComputationOutcome) -> bool:
    """Whether the user was given these on request, and need not wait for others."""
    return len(found.found) > 1 and all(suggestion.invoked for suggestion, _ in found.found)


def _now() -> float:
    return asyncio.get_running_loop().time()
