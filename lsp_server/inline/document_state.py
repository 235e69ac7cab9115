"""The inline completions of one open document: the suggestions known, the computations running, the replies waiting.

Decides what a change or a result means for each of them. Asks no worker and starts nothing: the service does.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from lsp_server.documents.change import Change, difference
from lsp_server.documents.document import Document
from lsp_server.fill.pipeline import FillResult
from lsp_server.inline.computation import Computation
from lsp_server.inline.debounce import Debounce
from lsp_server.inline.history import SuggestionHistory
from lsp_server.inline.request import NOTHING, InlineRequest, InlineResult, PendingReply
from lsp_server.inline.suggestion import Cursor, Suggestion
from lsp_server.shadow import AnsweredRequest
from lsp_server.usage.document_usage import DocumentUsage, Offer, Timing
from lsp_server.usage.events import Trigger
from lsp_server.usage.text_range import TextRange
from lsp_server.worker.failure import traceback_of

OnAnswered = Callable[[AnsweredRequest], None]
log = logging.getLogger(__name__)
GRACE_S = 0.3
"""How long a computation whose request was cancelled waits for the next request."""


def unheard(_request: AnsweredRequest) -> None:
    """Tells nobody."""


class Listener(Protocol):
    """Hears what the partner may be asked to improve."""

    def shown(self, uri: str, suggestion: Suggestion) -> None:
        """The user asked for suggestions, which were computed, and is shown this one first."""

    def taken(self, uri: str, start: int, text: str) -> None:
        """A whole suggestion was taken, and stands at `start` now."""


class _Silent:
    def shown(self, uri: str, suggestion: Suggestion) -> None:
        """Tells nobody."""

    def taken(self, uri: str, start: int, text: str) -> None:
        """Tells nobody."""


SILENT = _Silent()


class DocumentState:
    """One open document. `debounce` is told how long each computation took and whether anybody saw its result.

    `usage` is told what was shown, taken and rejected; `answered` what was computed for a request and shown.
    """

    def __init__(
        self,
        document: Document,
        debounce: Debounce,
        usage: DocumentUsage,
        answered: OnAnswered = unheard,
        listener: Listener = SILENT,
    ) -> None:
        self.document = document
        self.usage = usage
        self.history = SuggestionHistory(document.text)
        self.running: list[Computation] = []
        self._debounce = debounce
        self._answered = answered
        self._listener = listener

    @property
    def is_waited_for(self) -> bool:
        """Whether any request waits for a computation."""
        return any(computation.replies for computation in self.running)

    def supersede(self, *, keep_invoked: bool) -> None:
        """Answer the requests that wait with nothing, for a newer one has come. The computations go on for now."""
        for computation in self.running:
            for reply in tuple(computation.replies):
                if not (keep_invoked and reply.request.invoked):
                    reply.answer(NOTHING)
                    computation.replies.remove(reply)

    def recall(self, request: InlineRequest) -> InlineResult | None:
        """The answer that needs no computation; None where one is needed."""
        if self.history.after_undo and not request.invoked:
            return NOTHING
        found = self._find(request, request.cursor.offset)
        if not found or (request.invoked and not found.is_a_choice):
            return None
        self._show(found, request, Timing(request.budget.began_s, remembered=True))
        return found

    def join(self, reply: PendingReply) -> bool:
        """Have `reply` wait for a computation that runs and will answer it; False where there is none."""
        text = self.document.text
        running = next((each for each in self.running if each.answers(text, reply.request)), None)
        if running is None:
            return False
        self._attach(running, reply, joined=True)
        return True

    def add(self, computation: Computation, task: "asyncio.Task[None]", reply: PendingReply | None = None) -> None:
        """A computation was started, in `task`, for `reply` if anybody has asked."""
        computation.task = task
        self.running.append(computation)
        if reply is not None:
            self._attach(computation, reply, joined=False)

    def follow(self, changes: Sequence[Change]) -> list[Computation]:
        """The text has changed: end the computations that disagree. Returns those that the user has typed into."""
        self._tell_of(changes)
        typed_into = []
        for computation in tuple(self.running):
            typed = computation.typed
            for change in changes:
                for reply in computation.replies:
                    reply.cursor = change.move(reply.cursor)
            if not all(computation.follow(change) for change in changes):
                self.end(computation)
            elif computation.typed != typed:
                typed_into.append(computation)
        return typed_into

    def complete(self, computation: Computation, filled: FillResult) -> list[PendingReply]:
        """Keep what was computed, and answer the requests that wait for it with what continues the current text.

        Returns those that it cannot answer because it led elsewhere: they need a computation of their own.
        """
        self._remove(computation)
        self.history.add(computation.suggestions(filled))
        unanswered, used = [], False
        for reply in computation.replies:
            found = self._find(reply.request, reply.cursor)
            if not found and reply.joined and computation.is_amended:
                unanswered.append(reply)
                continue
            key = self._show(found, reply.request, Timing(reply.request.budget.began_s, reply.first_draft_s))
            reply.answer(found)
            if not used:
                self._tell_answered(computation, found, key, reply.first_draft_s)
                if found and computation.invoked:
                    self._listener.shown(self.document.uri, found.found[0][0])
            used = used or bool(found)
        self._observe(computation, used=used)
        return unanswered

    def fail(self, computation: Computation, error: Exception) -> None:
        """Pass a fault of ours to the requests that wait, or log it where none does."""
        if computation in self.running:
            self._remove(computation)
        if all(reply.result.done() for reply in computation.replies):
            log.error("an inline completion failed: %s", traceback_of(error))
        for reply in computation.replies:
            reply.fail(error)

    def end(self, computation: Computation) -> None:
        """Stop `computation`; the requests that still wait for it get nothing."""
        if computation not in self.running:
            return
        self._remove(computation)
        if computation.task is not None:
            computation.task.cancel()
        self._observe(computation, used=False)
        for reply in computation.replies:
            reply.answer(NOTHING)

    def end_unwanted(self, *, prefetches: bool) -> None:
        """Stop the computations that no request waits for: the prefetches, or all others."""
        for computation in tuple(self.running):
            if not computation.replies and computation.is_prefetch is prefetches:
                self.end(computation)

    def end_all(self) -> None:
        """The document is gone."""
        for computation in tuple(self.running):
            self.end(computation)

    def taken(self, suggestion: Suggestion) -> None:
        """The whole of it stands in the text."""
        self._listener.taken(self.document.uri, suggestion.anchor.start, suggestion.text)

    def _find(self, request: InlineRequest, offset: int) -> InlineResult:
        """What is known for the cursor of `request`, which is at `offset` now."""
        cursor = request.cursor if offset == request.cursor.offset else Cursor(offset)
        found = self.history.find(
            self.document.text, cursor, invoked=request.invoked, floor=request.floor, limit=request.budget.candidates
        )
        return InlineResult(found, self.document.lines)

    def _show(self, result: InlineResult, request: InlineRequest, timing: Timing) -> int | None:
        """The key under which the first one is counted; None where there is none."""
        text = self.document.text
        self.history.show(result.found, text, invoked=request.invoked)
        if not result.found:
            return None
        first, shown = result.found[0]
        adds = len(difference(text[shown.start : shown.end], shown.text).added)
        how = _trigger(request.invoked)
        return self.usage.shown(Offer(first.computation, first.hole.kind, how, first.confidence, adds), timing)

    def _tell_answered(
        self, computation: Computation, result: InlineResult, key: int | None, first_draft_s: float | None
    ) -> None:
        """Not where the user has typed on meanwhile: the model was told of it, and the other one would not be."""
        sent_s = computation.sent_at_s
        if key is None or sent_s is None or computation.is_amended:
            return
        first, anchor = result.found[0][0], computation.anchor
        if first.computation != computation.id:
            return
        self._answered(
            AnsweredRequest(
                computation.snapshot,
                [computation.hole],
                [TextRange(anchor.start, anchor.end)],
                [first.text],
                [key],
                _trigger(computation.invoked),
                computation.budget,
                computation.marker,
                first.confidence,
                None if first_draft_s is None else (first_draft_s - sent_s) * 1000,
                (asyncio.get_running_loop().time() - sent_s) * 1000,
                computation=computation.id,
            )
        )

    def _tell_of(self, changes: Sequence[Change]) -> None:
        """The suggestions move along, and some are taken or rejected by what was changed."""
        for suggestion in self.history.changed(changes, self.document.text):
            if not self.history.is_shown(suggestion.computation):  # none of its other texts goes on
                self.usage.rejected(suggestion.computation)
        taken = self.history.put_in(changes, self.document.text)
        if taken is not None:
            self.usage.accepted(taken.computation, taken.anchor.start, len(taken.text), whole=True)
            self.taken(taken)

    def _attach(self, computation: Computation, reply: PendingReply, *, joined: bool) -> None:
        reply.joined = joined
        computation.replies.append(reply)
        if computation.grace is not None:
            computation.grace.cancel()
            computation.grace = None

        def ended(result: "asyncio.Future[InlineResult]") -> None:
            if result.cancelled():
                self._detach(computation, reply)

        reply.result.add_done_callback(ended)

    def _detach(self, computation: Computation, reply: PendingReply) -> None:
        """A request was cancelled: its computation waits a moment for another one."""
        if reply in computation.replies:
            computation.replies.remove(reply)
        if computation not in self.running or computation.replies or computation.is_prefetch:
            return
        if computation.sent_at_s is None:
            self.end(computation)
        else:
            computation.grace = asyncio.get_running_loop().call_later(GRACE_S, self.end, computation)

    def _remove(self, computation: Computation) -> None:
        self.running.remove(computation)
        if computation.grace is not None:
            computation.grace.cancel()

    def _observe(self, computation: Computation, *, used: bool) -> None:
        if computation.sent_at_s is not None and not computation.is_prefetch:
            self._debounce.filled(asyncio.get_running_loop().time() - computation.sent_at_s, used=used)


def _trigger(invoked: bool) -> Trigger:
    return "asked" if invoked else "typing"
