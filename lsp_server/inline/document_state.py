"""The inline completions of one open document. Decides what a change or a result means; starts nothing itself."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from lsp_server.documents.change import Change
from lsp_server.documents.document import Document
from lsp_server.fill.feature import Feature, Shown
from lsp_server.fill.pipeline import FillResult
from lsp_server.inline.computation import (
    NOTHING,
    Accepted,
    Computation,
    InlineRequest,
    InlineResult,
    PendingReply,
)
from lsp_server.inline.debounce import Debounce
from lsp_server.inline.history import SuggestionHistory
from lsp_server.inline.suggestion import Cursor
from lsp_server.syntax.lines import line_end, line_start
from lsp_server.worker.failure import traceback_of

log = logging.getLogger(__name__)
GRACE_S = 0.3
"""How long a computation outlives its cancelled request, waiting for the next one."""


class DocumentState:
    """One open document. `debounce` learns how long each computation took and whether its result was seen."""

    def __init__(self, document: Document, debounce: Debounce, listener: Feature) -> None:
        self.document = document
        self.history = SuggestionHistory(document.text)
        self.running: list[Computation] = []
        self.accepted: Accepted | None = None
        """What the user accepted last, until it is in the text: editors report it before or after the change."""
        self._debounce = debounce
        self._listener = listener

    @property
    def is_waited_for(self) -> bool:
        """Whether any request waits for a computation."""
        return any(computation.replies for computation in self.running)

    def supersede(self, *, keep_invoked: bool) -> None:
        """Answers the waiting requests with nothing, because a newer one has come. Their computations continue."""
        for computation in self.running:
            for reply in tuple(computation.replies):
                if not (keep_invoked and reply.request.invoked):
                    reply.answer(NOTHING)
                    computation.replies.remove(reply)

    def recall(self, request: InlineRequest) -> InlineResult | None:
        """The answer that needs no computation; None if one is needed."""
        if self.history.after_undo and not request.invoked:
            return NOTHING
        found = self._find(request, request.cursor.offset)
        if not found or (request.invoked and not found.is_a_choice):
            return None
        self._show(found, request)
        return found

    def answering(self, request: InlineRequest) -> Computation | None:
        """A running computation that will answer `request`; None if there is none."""
        return next((each for each in self.running if each.answers(self.document.text, request)), None)

    def add(self, computation: Computation, task: "asyncio.Task[None]", reply: PendingReply | None = None) -> None:
        """A computation started in `task`, for `reply` unless it is a prefetch."""
        computation.task = task
        self.running.append(computation)
        if reply is not None:
            self.attach(computation, reply, joined=False)

    def attach(self, computation: Computation, reply: PendingReply, *, joined: bool) -> None:
        """Has `computation` answer `reply`. `joined`: another request started it."""
        reply.joined = joined
        computation.replies.append(reply)
        if computation.grace is not None:
            computation.grace.cancel()
            computation.grace = None

        def ended(result: "asyncio.Future[InlineResult]") -> None:
            if result.cancelled():
                self._detach(computation, reply)

        reply.result.add_done_callback(ended)

    def follow(self, changes: Sequence[Change]) -> list[Computation]:
        """Ends the computations that disagree with the new text. Returns those that the user has typed into."""
        self._tell_of(changes)
        typed_into = []
        for computation in tuple(self.running):
            typed = computation.typed
            for change in changes:
                for reply in computation.replies:
                    reply.cursor = change.move(reply.cursor)
            follows = all(computation.follow(change) for change in changes)
            if not follows or not computation.anchor.is_fresh(self.document.text):
                self.end(computation)
            elif computation.typed != typed:
                typed_into.append(computation)
        return typed_into

    def complete(self, computation: Computation, filled: FillResult) -> list[PendingReply]:
        """Stores the results and answers the waiting requests. Returns those that it cannot answer."""
        self._remove(computation)
        self.history.add(computation.suggestions(filled))
        unanswered = []
        used = False
        for reply in computation.replies:
            if reply.result.done():
                continue  # it was late
            found = self._find(reply.request, reply.cursor)
            if not found and reply.joined and computation.is_amended:
                unanswered.append(reply)
                continue
            self._show(found, reply.request, None if used else computation)
            reply.answer(found)
            used = used or bool(found)
        self._observe(computation, used=used)
        return unanswered

    def fail(self, computation: Computation, error: Exception) -> None:
        """Fails the waiting requests with an internal error, or logs it if none waits."""
        if computation in self.running:
            self._remove(computation)
        if all(reply.result.done() for reply in computation.replies):
            log.error("an inline completion failed: %s", traceback_of(error))
        for reply in computation.replies:
            if not reply.result.done():
                reply.result.set_exception(error)

    def end(self, computation: Computation) -> None:
        """Stops `computation` and answers its waiting requests with nothing."""
        if computation not in self.running:
            return
        self._remove(computation)
        if computation.task is not None:
            computation.task.cancel()
        self._observe(computation, used=False)
        for reply in computation.replies:
            reply.answer(NOTHING)

    def end_unwanted(self, *, prefetches: bool) -> None:
        """Stops the computations that no request waits for: either the prefetches, or all others."""
        for computation in tuple(self.running):
            if not computation.replies and computation.is_prefetch is prefetches:
                self.end(computation)

    def end_all(self) -> None:
        """Forgets the document."""
        for computation in tuple(self.running):
            self.end(computation)

    def take_accepted(self) -> Accepted | None:
        """The acceptance whose text is now in the document, with the suggestion at its current place; only once."""
        accepted = self.accepted
        text = self.document.text
        suggestion = self.history.get(accepted.suggestion.id) if accepted else None
        if accepted is None or (suggestion and not text.startswith(accepted.text, suggestion.anchor.start)):
            return None
        self.accepted = None
        return replace(accepted, suggestion=suggestion) if suggestion else None

    def _find(self, request: InlineRequest, offset: int) -> InlineResult:
        """The known suggestions for the cursor of `request`, now at `offset`."""
        cursor = request.cursor if offset == request.cursor.offset else Cursor(offset)
        text = self.document.text
        found = self.history.find(
            text, cursor, invoked=request.invoked, floor=request.floor, limit=request.budget.candidates
        )
        if request.wants_empty and cursor.selected is None:
            found = [(suggestion, shown.at_cursor(text, offset)) for suggestion, shown in found]
        around = text[line_start(text, offset) : offset], text[offset : line_end(text, offset)]
        return InlineResult(found, self.document.lines, around)

    def _show(self, result: InlineResult, request: InlineRequest, computation: Computation | None = None) -> None:
        self.history.show(result.found, self.document.text, invoked=request.invoked)
        if result.found:
            first, _ = result.found[0]
            waited_ms = (time.monotonic() - request.budget.began_s) * 1000 if computation else None
            asked = computation.asked(first) if computation else None
            shown = Shown(first.computation, "asked" if request.invoked else "typing", waited_ms, asked)
            self._listener.shown(self.document.uri, shown)

    def _tell_of(self, changes: Sequence[Change]) -> None:
        """Moves the suggestions along; the changes may accept or reject some."""
        for suggestion in self.history.changed(changes, self.document.text):
            if not self.history.is_shown(suggestion.computation):  # none of its other texts continues
                self._listener.rejected(self.document.uri, suggestion.computation)
        taken = self.history.put_in(changes, self.document.text)
        if taken is not None:
            self._listener.taken(self.document.uri, taken.taken(len(taken.text)))

    def _detach(self, computation: Computation, reply: PendingReply) -> None:
        """A request was cancelled: keep its computation for a moment in case another one takes it over."""
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
