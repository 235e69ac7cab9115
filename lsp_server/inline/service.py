"""Answers requests for inline completions: from history, from a running computation, or by a new one.

The newest request wins, but an automatic one does not stop an explicit one. A computation outlives its request for a
moment, so that the next one can take it over. Belongs to one event loop.
"""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count

from lsp_server.documents.change import Change
from lsp_server.documents.document import Document
from lsp_server.fill.pipeline import Budget
from lsp_server.inline.computation import Accepted, Computation, SuggestionListener
from lsp_server.inline.debounce import Debounce
from lsp_server.inline.document_state import DocumentState
from lsp_server.inline.request import NOTHING, InlineRequest, InlineResult, PendingReply, TakeSnapshot
from lsp_server.inline.runner import ComputationRunner, Connection, GatherContext, MaySend, Tell
from lsp_server.inline.suggestion import Cursor, Suggestion
from lsp_server.worker import alive

_numbers = count(1)

InlineAnswer = InlineResult | asyncio.Future[InlineResult]


class InlineService:
    """All inline completions of a session. It must see every change of a document."""

    def __init__(
        self,
        documents: Mapping[str, Document],
        connection: Connection,
        gather_context: GatherContext,
        may_send: MaySend,
        listener: SuggestionListener,
        tell: Tell,
    ) -> None:
        self._documents, self._listener = documents, listener
        self._runner = ComputationRunner(connection, gather_context, may_send, tell)
        self._debounce = Debounce()
        self._states: dict[str, DocumentState] = {}

    @property
    def is_computing(self) -> bool:
        """Whether any suggestion is being computed, for a request or as a prefetch."""
        return any(state.running for state in self._states.values())

    def open(self, uri: str) -> None:
        """A document was opened; nothing is known about it yet."""
        self.forget(uri)
        self._states[uri] = DocumentState(self._documents[uri], self._debounce, self._listener)

    def changed(self, uri: str, changes: Sequence[Change]) -> None:
        """The document's text has changed; the computations that agree with it continue."""
        state = self._states.get(uri)
        if state is not None and changes:
            self._debounce.typed(_now_s())
            for computation in state.follow(changes):
                self._runner.amend(computation)
            self._prefetch(uri, state)

    def forget(self, uri: str) -> None:
        """The document was closed, or our copy of it can no longer be trusted."""
        if state := self._states.pop(uri, None):
            state.end_all()

    def ask(self, uri: str, request: InlineRequest, take_snapshot: TakeSnapshot) -> InlineAnswer:
        """The suggestions for a cursor, best first: immediately if they are known, otherwise once they are computed.

        Cancelling the future cancels the request. Its result is empty if something newer came.
        """
        answer = self.ask_known(uri, request, take_snapshot)
        if answer is not None:
            return answer
        state, reply = self._states[uri], self._pending(request, take_snapshot)
        found = self._compute_for(state, reply)
        state.end_unwanted(prefetches=False)
        return reply.result if found else NOTHING

    def ask_known(self, uri: str, request: InlineRequest, take_snapshot: TakeSnapshot) -> InlineAnswer | None:
        """The same without starting a computation; None if that would be necessary."""
        state = self._states.get(uri)
        if state is None:
            return NOTHING
        state.supersede(keep_invoked=not request.invoked)
        answer: InlineAnswer | None = state.recall(request)
        if answer is None and (running := state.answering(request)):
            state.attach(running, reply := self._pending(request, take_snapshot), joined=True)
            answer = reply.result
        if answer is not None:
            state.end_unwanted(prefetches=False)
        return answer

    def suggestion(self, uri: str, suggestion_id: str) -> Suggestion | None:
        """A suggestion in its current place; None if it is unknown, accepted or rejected."""
        state = self._states.get(uri)
        return state.history.get(suggestion_id) if state else None

    def replace(self, uri: str, asked: Suggestion, text: str, confidence: float) -> bool:
        """Shows `text` instead of `asked`, the suggestion when it was requested; False if that is gone or disagrees."""
        state = self._states.get(uri)
        new_id = f"refined-{next(_numbers)}.0"
        return state is not None and state.history.refine(asked, new_id, text, confidence, state.document.text)

    def rejected(self, uri: str, suggestion_id: str) -> None:
        """The user rejected this suggestion."""
        found, state = self.suggestion(uri, suggestion_id), self._states.get(uri)
        if found is not None and state is not None:
            state.history.reject(suggestion_id)
            self._listener.rejected(uri, found.computation)

    def shown(self, uri: str, suggestion_id: str) -> str | None:
        """The last shown part of a suggestion; None if unknown."""
        found = self.suggestion(uri, suggestion_id)
        return None if found is None or found.shown_from is None else found.text[found.shown_from :]

    def accepted(self, uri: str, suggestion_id: str, length: int | None, budget: Budget | None, marker: str) -> None:
        """The user accepted the first `length` characters shown, or (None) all. Prefetches within `budget`."""
        found = self.suggestion(uri, suggestion_id)
        if found is not None:
            end = len(found.text) if length is None else (found.shown_from or 0) + length
            state = self._states[uri]
            state.accepted = Accepted(found, found.text[:end], budget, marker)
            self._prefetch(uri, state)

    def _pending(self, request: InlineRequest, take_snapshot: TakeSnapshot) -> PendingReply:
        """A request that is answered with nothing at its deadline; an explicit one after the user is told why."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[InlineResult] = loop.create_future()
        reply = PendingReply(request, take_snapshot, request.cursor.offset, result)
        late_s = alive.LATE_S if request.invoked else 0.0
        timer = loop.call_later(request.budget.left_ms / 1000 + late_s, reply.answer, NOTHING)
        result.add_done_callback(lambda _: timer.cancel())
        return reply

    def _compute_for(self, state: DocumentState, reply: PendingReply) -> bool:
        """Starts a computation for a request; False if there is no hole. Prefetches give way to it."""
        request, snapshot = reply.request, reply.take_snapshot()
        if snapshot is None:
            return False
        cursor = request.cursor if reply.cursor == request.cursor.offset else Cursor(reply.cursor)
        computation = Computation.of(snapshot, request, cursor)
        if computation is None:
            return False
        for each in self._states.values():
            each.end_unwanted(prefetches=True)
        pause_s = 0.0 if request.invoked else self._debounce.wait_s(request.pause_s, _now_s())
        task = asyncio.create_task(self._run(state, computation, pause_s, drafts=request.on_draft is not None))
        state.add(computation, task, reply)
        return True

    def _prefetch(self, uri: str, state: DocumentState) -> None:
        """Computes what follows an accepted suggestion once that is in the text, unless a request waits."""
        accepted = state.take_accepted()
        if accepted is None:
            return
        suggestion = accepted.suggestion
        self._listener.taken(uri, suggestion, len(accepted.text))
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
            filled = await self._runner.run(computation, pause_s, drafts=drafts)
            if computation in state.running:
                for reply in state.complete(computation, filled):
                    if not self._compute_for(state, reply):
                        reply.answer(NOTHING)
        except Exception as error:  # our own bug: fail the request, or it would wait for ever
            state.fail(computation, error)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
