"""Answers requests for inline completions: from history, from a running computation, or by a new one.

The newest request wins, but an automatic one does not stop an explicit one. A computation outlives its request for a
moment, so that the next one can take it over. Belongs to one event loop.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from lsp_server.context.provider import ASKED_MS, TYPING_MS
from lsp_server.documents.change import Change
from lsp_server.documents.document import Document, Snapshot
from lsp_server.fill.feature import Feature, Shown
from lsp_server.fill.host import Host
from lsp_server.fill.pipeline import Budget, FillResult, fill
from lsp_server.inline.computation import (
    NOTHING,
    Accepted,
    Computation,
    InlineRequest,
    InlineResult,
    PendingReply,
    hole_for,
)
from lsp_server.inline.debounce import Debounce
from lsp_server.inline.history import SuggestionHistory
from lsp_server.inline.suggestion import Cursor, Suggestion
from lsp_server.syntax.lines import line_end, line_start
from lsp_server.worker import WorkerFailure
from lsp_server.worker.client import LATE_S
from lsp_server.worker.failure import SilentError, StillLoadingError, traceback_of

log = logging.getLogger(__name__)
GRACE_S = 0.3
"""How long a computation outlives its cancelled request, waiting for the next one."""
_numbers = count(1)

InlineAnswer = InlineResult | asyncio.Future[InlineResult]


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


class InlineService(Feature):
    """All inline completions of a session. It must see every change of a document."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._debounce = Debounce()
        self._states: dict[str, DocumentState] = {}
        self._is_failing = False

    @property
    def is_computing(self) -> bool:  # type: ignore[override]
        """Whether any suggestion is being computed, for a request or as a prefetch."""
        return any(state.running for state in self._states.values())

    def opened(self, uri: str) -> None:
        self.closed(uri)
        self._states[uri] = DocumentState(self._host.documents[uri], self._debounce, self._host.broadcast)

    def changed(self, uri: str, changes: Sequence[Change]) -> None:
        """The computations that agree with the new text continue."""
        state = self._states.get(uri)
        if state is not None and changes:
            self._debounce.typed(_now_s())
            for computation in state.follow(changes):
                self._amend(computation)
            self._prefetch(uri, state)

    def closed(self, uri: str) -> None:
        if state := self._states.pop(uri, None):
            state.end_all()

    def ask(self, uri: str, request: InlineRequest) -> InlineAnswer:
        """The suggestions for a cursor, best first: immediately if they are known, otherwise once they are computed.

        Cancelling the future cancels the request. Its result is empty if something newer came.
        """
        state = self._states.get(uri)
        if state is None:
            return NOTHING
        state.supersede(keep_invoked=not request.invoked)
        known = state.recall(request)
        if known is None:
            reply = self._pending(request)
            if running := state.answering(request):
                state.attach(running, reply, joined=True)
            else:
                self._begin(state, reply)
        state.end_unwanted(prefetches=False)
        return reply.result if known is None else known

    def suggestion(self, uri: str, suggestion_id: str) -> Suggestion | None:
        """A suggestion in its current place; None if it is unknown, accepted or rejected."""
        state = self._states.get(uri)
        return state.history.get(suggestion_id) if state else None

    def replace(self, uri: str, asked: Suggestion, text: str, confidence: float) -> bool:
        """Shows `text` instead of `asked`, the suggestion when it was requested; False if that is gone or disagrees."""
        state = self._states.get(uri)
        new_id = f"refined-{next(_numbers)}.0"
        return state is not None and state.history.refine(asked, new_id, text, confidence, state.document.text)

    def reject(self, uri: str, suggestion_id: str) -> None:
        """The user rejected this suggestion."""
        found = self.suggestion(uri, suggestion_id)
        state = self._states.get(uri)
        if found is not None and state is not None:
            state.history.reject(suggestion_id)
            self._host.broadcast.rejected(uri, found.computation)

    def part_shown(self, uri: str, suggestion_id: str) -> str | None:
        """The last shown part of a suggestion; None if unknown."""
        found = self.suggestion(uri, suggestion_id)
        return None if found is None or found.shown_from is None else found.text[found.shown_from :]

    def accept(self, uri: str, suggestion_id: str, length: int | None, budget: Budget | None, marker: str) -> None:
        """The user accepted the first `length` characters shown, or (None) all. Prefetches within `budget`."""
        found = self.suggestion(uri, suggestion_id)
        if found is not None:
            end = len(found.text) if length is None else (found.shown_from or 0) + length
            state = self._states[uri]
            state.accepted = Accepted(found, found.text[:end], budget, marker)
            self._prefetch(uri, state)

    def _pending(self, request: InlineRequest) -> PendingReply:
        """A request that is answered with nothing at its deadline; an explicit one after the user is told why."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[InlineResult] = loop.create_future()
        reply = PendingReply(request, request.cursor.offset, result)
        late_s = LATE_S if request.invoked else 0.0
        timer = loop.call_later(request.budget.left_ms / 1000 + late_s, reply.answer, NOTHING)
        result.add_done_callback(lambda _: timer.cancel())
        return reply

    def _begin(self, state: DocumentState, reply: PendingReply) -> None:
        """Starts a computation for a request, once the document is parsed."""
        found = self._host.parsed(state.document)
        if isinstance(found, Snapshot):
            self._compute(state, reply, found)
        else:
            parsing = asyncio.ensure_future(found)
            reply.result.add_done_callback(lambda _: parsing.cancel())
            parsing.add_done_callback(lambda task: self._parsed(state, reply, task))

    def _parsed(self, state: DocumentState, reply: PendingReply, parsing: "asyncio.Future[Snapshot | None]") -> None:
        if not parsing.cancelled():
            self._compute(state, reply, parsing.result())

    def _compute(self, state: DocumentState, reply: PendingReply, snapshot: Snapshot | None) -> None:
        """Starts a computation for a request, or answers it with nothing if there is no hole. Prefetches give way."""
        request = reply.request
        cursor = request.cursor if reply.cursor == request.cursor.offset else Cursor(reply.cursor)
        hole = hole_for(snapshot, cursor, request.marker) if snapshot else None
        if snapshot is None or hole is None:
            reply.answer(NOTHING)
            return
        computation = Computation(snapshot, hole, request, cursor)
        for each in self._states.values():
            each.end_unwanted(prefetches=True)
        pause_s = 0.0 if request.invoked else self._debounce.wait_s(request.pause_s, _now_s())
        task = asyncio.create_task(self._run(state, computation, pause_s, drafts=request.on_draft is not None))
        state.add(computation, task, reply)

    def _prefetch(self, uri: str, state: DocumentState) -> None:
        """Computes what follows an accepted suggestion once that is in the text, unless a request waits."""
        accepted = state.take_accepted()
        if accepted is None:
            return
        suggestion = accepted.suggestion
        self._host.broadcast.taken(uri, suggestion.taken(len(accepted.text)))
        if accepted.is_whole:
            state.history.reject(suggestion.id)  # if the user removes it again, it does not come back by itself
        if accepted.budget is None or any(each.is_waited_for for each in self._states.values()):
            return
        computation = accepted.prefetch(state.document.snapshot(quick=True), accepted.budget.from_now())
        if computation is not None:
            state.add(computation, asyncio.create_task(self._run(state, computation)))

    async def _run(
        self, state: DocumentState, computation: Computation, pause_s: float = 0.0, *, drafts: bool = False
    ) -> None:
        try:
            filled = await self._filled(computation, pause_s, drafts=drafts)
            if computation in state.running:
                for reply in state.complete(computation, filled):
                    self._begin(state, reply)
        except Exception as error:  # our own bug: fail the request, or it would wait for ever
            state.fail(computation, error)

    async def _filled(self, computation: Computation, pause_s: float, *, drafts: bool) -> FillResult:
        """The worker's results, requested after a pause; empty if it fails. Cancelling this cancels the request."""
        try:
            client = self._host.worker.client
            snapshot = computation.snapshot
            start = computation.hole.start
            if computation.request.invoked:
                client = await self._host.worker.loaded(computation.request.budget.deadline)
            max_ms = ASKED_MS if computation.request.invoked else TYPING_MS
            gathering = self._host.context_for(snapshot, start, client.last_status, max_ms)
            context, _ = await asyncio.gather(gathering, asyncio.sleep(pause_s))
            if context is None:
                return FillResult([], late=False)
            computation.sent_at_s = _now_s()
            filled = await fill(
                client,
                snapshot,
                [computation.hole],
                computation.request.budget,
                request_id=computation.id,
                on_draft=computation.show if drafts else None,
                context=context,
                marker=computation.request.marker,
            )
        except WorkerFailure as failure:
            level = logging.INFO if self._is_failing else logging.WARNING  # not on every keystroke
            log.log(level, "no inline completion: %s", failure)
            self._is_failing = True
            if computation.request.invoked and isinstance(failure, StillLoadingError | SilentError):
                self._host.tell_why(failure)  # the connection reports all others
            return FillResult([], late=False)
        self._is_failing = False
        return filled

    def _amend(self, computation: Computation) -> None:
        """Tells the worker what was typed into the hole."""
        text = computation.amendment()
        try:
            if text is not None:
                self._host.worker.client.amend(computation.id, 0, text)
        except WorkerFailure as failure:
            log.info("could not amend: %s", failure)  # the waiting request fails too


class ListService(InlineService):
    """The suggestions in the list of an editor that also shows ghost text: neither's answers make the other's stale."""


def _now_s() -> float:
    return asyncio.get_running_loop().time()
