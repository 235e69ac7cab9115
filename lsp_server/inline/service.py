"""Answers requests for inline completions: from history, from a running computation, or by a new one.

The newest request wins, but an automatic one does not stop an explicit one. A computation outlives its request for a
moment, so that the next one can take it over. Belongs to one event loop.
"""

import asyncio
import logging
from collections.abc import Sequence
from itertools import count

from lsp_server.context.provider import ASKED_MS, TYPING_MS
from lsp_server.documents.change import Change
from lsp_server.documents.document import Snapshot
from lsp_server.fill.feature import Feature
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
from lsp_server.inline.document_state import DocumentState
from lsp_server.inline.suggestion import Cursor, Suggestion
from lsp_server.worker import WorkerFailure
from lsp_server.worker.client import LATE_S
from lsp_server.worker.failure import SilentError, StillLoadingError

log = logging.getLogger(__name__)
_numbers = count(1)

InlineAnswer = InlineResult | asyncio.Future[InlineResult]


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
