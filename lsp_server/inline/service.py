"""Answers requests for inline completions: from history, from a running computation, or by a new one.

The newest request wins, but an automatic one does not stop an explicit one. A computation outlives its request for a
moment, so that the next one can take it over. Belongs to one event loop.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from inference.messages import Draft
from lsp_server.context.retrieval import ASKED_MS, TYPING_MS
from lsp_server.documents.change import TextChange
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.positions import clip_units
from lsp_server.features import Feature, ShownEvent
from lsp_server.fill.pipeline import ASK, FillBudget, FillResult, fill
from lsp_server.inline.anchor import Cursor
from lsp_server.inline.computation import FillComputation
from lsp_server.inline.history import SuggestionHistory
from lsp_server.inline.read_ahead import may_read_ahead
from lsp_server.inline.request import InlineRequest, hole_for_ghost_text
from lsp_server.inline.suggestion import ShownSuggestions, Suggestion, offers_choice
from lsp_server.worker import WorkerError
from lsp_server.worker.client import ANSWER_GRACE_S
from lsp_server.worker.failure import StillLoadingError, WorkerUnresponsiveError, traceback_without_message

if TYPE_CHECKING:
    from lsp_server.session import Session

log = logging.getLogger(__name__)
_AFTER_UNDO_MESSAGE = f"nothing comes by itself after an undo; type on, or {ASK}"
_REJECTED_MESSAGE = f"you rejected this suggestion, or typed something else; to see it again, {ASK}"
GRACE_S = 0.3
"""How long a computation outlives its cancelled request, waiting for the next one."""
_refinements = count(1)


@dataclass(frozen=True)
class _Accepted:
    """The user accepted `text`, the start of a suggestion or all of it. `next_request` prefetches what follows."""

    suggestion_id: str
    text: str
    next_request: InlineRequest | None


@dataclass(eq=False)
class _DocumentState:
    """One open document, its known suggestions, and the computations for it."""

    document: Document
    history: SuggestionHistory
    running: list[FillComputation] = field(default_factory=list)
    accepted: _Accepted | None = None
    """The last acceptance, until its text is in the document: editors report it before or after the change."""
    empty_result: tuple[int, int, str] | None = None
    """The version, the offset and the reason of the last request that got no suggestion."""

    def record_empty(self, request: InlineRequest, reason: str) -> None:
        """Records why a request gets no suggestion."""
        self.empty_result = self.document.version, request.cursor.offset, reason


class InlineService(Feature):
    """All inline completions of a session. It must see every change of a document."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._states: dict[str, _DocumentState] = {}
        self._is_failing = False

    @property
    def is_computing(self) -> bool:  # type: ignore[override]
        return any(state.running for state in self._states.values())

    def opened(self, uri: str) -> None:
        self.closed(uri)
        document = self._session.documents[uri]
        self._states[uri] = _DocumentState(document, SuggestionHistory(document.text))

    def changed(self, uri: str, changes: Sequence[TextChange]) -> None:
        """Adapts the suggestions and computations to the changes, which may accept or reject some."""
        state = self._states.get(uri)
        if state is None or not changes:
            return
        for suggestion in state.history.changed(changes, state.document.text):
            if not state.history.is_shown(suggestion.computation_id):  # the user typed over its other texts, too
                self._session.features.rejected(uri, suggestion.computation_id)
        accepted = state.history.pasted_suggestion(changes)
        if accepted is not None:
            self._session.features.accepted(uri, accepted.accepted_event(len(accepted.text)))
        for computation in tuple(state.running):
            self._follow(state, computation, changes)
        self._prefetch(uri, state)

    def closed(self, uri: str) -> None:
        if state := self._states.pop(uri, None):
            for computation in tuple(state.running):
                self._cancel(state, computation)

    def complete(self, uri: str, request: InlineRequest) -> Any:
        """Returns the reply if suggestions are cached, otherwise a future of it.

        Cancelling the future cancels the request. A newer request and the deadline make the reply empty.
        """
        state = self._states.get(uri)
        if state is None:
            return request.make_reply(())
        for computation in state.running:
            for older in computation.waiting:
                if request.invoked or not older.invoked:
                    older.answer()
        suggestions = self._cached_suggestions(state, request)
        if suggestions is not None:
            self._cancel_unwanted(state, prefetches=False)
            return request.make_reply(suggestions)
        loop = asyncio.get_running_loop()
        request.result = loop.create_future()
        grace_s = ANSWER_GRACE_S if request.invoked else 0.0  # a failure that explains itself may come first
        timer = loop.call_at(request.budget.deadline.time_s + grace_s, self._time_out, state, request)
        request.result.add_done_callback(lambda _: timer.cancel())
        self._join_or_start(state, request)
        self._cancel_unwanted(state, prefetches=False)
        return request.result

    def no_suggestion_reason(self, uri: str, offset: int) -> str | None:
        """Why the last request at `offset` got no suggestion; None if it got one, or there was no request."""
        state = self._states.get(uri)
        if state is None or state.empty_result is None:
            return None
        version, empty_offset, reason = state.empty_result
        return reason if (version, empty_offset) == (state.document.version, offset) else None

    def _time_out(self, state: _DocumentState, request: InlineRequest) -> None:
        if request.is_open:
            state.record_empty(request, FillResult([], is_late=True).empty_reason(request.budget))
        request.answer()

    def find_suggestion(self, uri: str, suggestion_id: str) -> Suggestion | None:
        """A suggestion with its current range; None if it is unknown, accepted or rejected."""
        state = self._states.get(uri)
        return state.history.get(suggestion_id) if state else None

    def show_refined(self, uri: str, requested: Suggestion, text: str) -> bool:
        """Shows `text` instead of the suggestion `requested`; False if that is gone or has changed since."""
        state = self._states.get(uri)
        return state is not None and state.history.insert_refined(requested, f"refined-{next(_refinements)}.0", text)

    def reject(self, uri: str, suggestion_id: str) -> None:
        if suggestion := self.find_suggestion(uri, suggestion_id):
            self._states[uri].history.reject(suggestion_id)
            self._session.features.rejected(uri, suggestion.computation_id)

    def accept(self, uri: str, suggestion_id: str, units: int | None = None) -> None:
        """Accepts the first `units` code units (of the negotiated encoding) of a shown suggestion, or all of it.
        Prefetches what follows, unless prefetch or fills for this document are switched off.
        """
        suggestion = self.find_suggestion(uri, suggestion_id)
        if suggestion is None or suggestion.shown_from is None or units == 0:
            return
        shown_text = suggestion.text[suggestion.shown_from :]
        accepted_text = (
            shown_text if units is None else clip_units(shown_text, units, self._session.client_capabilities.encoding)
        )
        settings = self._session.settings_of(uri)
        next_request = None
        if settings.prefetch and not self._session.disabled_reason(uri):
            budget = replace(FillBudget.from_settings(settings, invoked=False), candidates=1)
            next_request = InlineRequest(Cursor(0), budget, settings.marker)
        state = self._states[uri]
        state.accepted = _Accepted(
            suggestion_id, suggestion.text[: suggestion.shown_from + len(accepted_text)], next_request
        )
        self._prefetch(uri, state)

    def _cached_suggestions(self, state: _DocumentState, request: InlineRequest) -> ShownSuggestions | None:
        """The cached suggestions for a request; None if it needs a computation."""
        state.empty_result = None
        if state.history.is_after_undo and not request.invoked:
            state.record_empty(request, _AFTER_UNDO_MESSAGE)
            return ()
        suggestions = state.history.suggestions_for(request)
        if not suggestions or (request.invoked and not offers_choice(suggestions)):
            return None
        self._show(state, suggestions, request)
        return suggestions

    def _join_or_start(self, state: _DocumentState, request: InlineRequest) -> None:
        """Attaches a request to a running computation that can answer it, or starts one."""
        text = state.document.text
        running = next((item for item in state.running if item.can_answer(text, request)), None)
        if running is None:
            self._start_when_parsed(state, request)
        else:
            self._attach(state, running, request)

    def _start_when_parsed(self, state: _DocumentState, request: InlineRequest) -> None:
        """Starts a computation for a request, once the document is parsed."""
        if state.document.parse_job() is None:
            self._compute(state, request, state.document.snapshot())
            return

        def on_parsed(parsing: "asyncio.Task[Snapshot | None]") -> None:
            if not parsing.cancelled():
                self._compute(state, request, parsing.result())

        parsing = asyncio.create_task(self._session.parsed_snapshot(state.document))
        parsing.add_done_callback(on_parsed)
        request.result.add_done_callback(lambda _: parsing.cancel())

    def _compute(self, state: _DocumentState, request: InlineRequest, snapshot: Snapshot | None) -> None:
        """Starts a computation for a request and cancels prefetches; replies with nothing if there is no hole."""
        hole = hole_for_ghost_text(snapshot, request.cursor, request.marker) if snapshot else None
        if snapshot is None or hole is None:
            request.answer()
            return
        for other_state in self._states.values():
            self._cancel_unwanted(other_state, prefetches=True)
        computation = FillComputation(snapshot, hole, request)
        self._start(state, computation, 0.0 if request.invoked else request.pause_s)
        self._attach(state, computation, request)

    def _prefetch(self, uri: str, state: _DocumentState) -> None:
        """Prefetches what follows an accepted suggestion as soon as that is in the text, unless a request waits."""
        accepted = state.accepted
        suggestion = state.history.get(accepted.suggestion_id) if accepted else None
        text = state.document.text
        if accepted is None or (suggestion and not text.startswith(accepted.text, suggestion.anchor.start)):
            return
        state.accepted = None
        if suggestion is None:
            return
        is_whole = accepted.text == suggestion.text
        self._session.features.accepted(uri, suggestion.accepted_event(len(accepted.text)))
        if is_whole:
            state.history.reject(suggestion.id)  # if the user deletes the text, it does not reappear by itself
        request = accepted.next_request
        if request is None or any(
            computation.is_wanted for other_state in self._states.values() for computation in other_state.running
        ):
            return
        anchor = suggestion.anchor
        snapshot = state.document.snapshot(quick=True)
        request.cursor = Cursor(anchor.start + len(accepted.text))
        request.budget = request.budget.restarted()
        remaining_hole = replace(suggestion.hole, start=anchor.start, end=anchor.end, starts_with=accepted.text)
        hole = hole_for_ghost_text(snapshot, request.cursor, request.marker) if is_whole else remaining_hole
        if hole is not None:
            self._start(state, FillComputation(snapshot, hole, request, is_prefetch=True), 0.0)

    def _start(self, state: _DocumentState, computation: FillComputation, pause_s: float) -> None:
        computation.task = asyncio.create_task(self._run(state, computation, pause_s))
        state.running.append(computation)

    def _attach(self, state: _DocumentState, computation: FillComputation, request: InlineRequest) -> None:
        computation.waiting.append(request)
        if computation.expiry_timer is not None:
            computation.expiry_timer.cancel()
            computation.expiry_timer = None
        request.result.add_done_callback(lambda _: self._request_ended(state, computation, request))

    def _request_ended(self, state: _DocumentState, computation: FillComputation, request: InlineRequest) -> None:
        """After a cancelled request, keeps its computation for `GRACE_S`, so that the next request can take it over."""
        if not request.result.cancelled() or computation.is_wanted or computation.is_prefetch:
            return
        if not computation.is_sent:
            self._cancel(state, computation)
        else:
            computation.expiry_timer = asyncio.get_running_loop().call_later(GRACE_S, self._cancel, state, computation)

    def _follow(self, state: _DocumentState, computation: FillComputation, changes: Sequence[TextChange]) -> None:
        """Cancels a computation that disagrees with the new text, or restarts it if only its draft does."""
        for change in changes:
            for request in computation.waiting:
                request.cursor = request.cursor.after_change(change)
        follows = all(computation.follow(change) for change in changes)
        if not follows or not computation.anchor.is_fresh(state.document.text):
            self._cancel(state, computation)
        elif computation.contradicts_typed:
            self._restart(state, computation)

    def _take_draft(self, state: _DocumentState, computation: FillComputation, draft: Draft) -> None:
        computation.draft = draft
        if computation not in state.running:
            return
        if computation.contradicts_typed:
            self._restart(state, computation)
        else:
            computation.show_draft(draft)

    def _restart(self, state: _DocumentState, computation: FillComputation) -> None:
        """Stops a computation; if requests wait, starts another one that includes the typed text."""
        self._end(state, computation)
        self._recompute(state, computation.waiting)

    async def _run(self, state: _DocumentState, computation: FillComputation, pause_s: float) -> None:
        """Computes a fill after a pause and answers the waiting requests, with nothing if that fails. Cancelling the
        task cancels the request in the worker.
        """
        try:
            result = await self._fill(state, computation, pause_s)
            if computation in state.running:
                self._complete(state, computation, result)
        except Exception as error:  # our own bug: fail the request, or it would wait for ever
            if computation in state.running:
                self._remove(state, computation)
            waiting = [request for request in computation.waiting if request.is_open]
            if not waiting:
                log.error("an inline completion failed: %s", traceback_without_message(error))
            for request in waiting:
                request.result.set_exception(error)

    async def _fill(self, state: _DocumentState, computation: FillComputation, pause_s: float) -> FillResult:
        """Requests the fill from the worker; empty if that fails or the worker may not see the document."""
        request = computation.request
        client = self._session.worker.client
        try:
            if request.invoked:
                await client.load(request.budget.deadline)
            gathering = self._session.context_for(
                computation.snapshot,
                computation.hole.start,
                client.last_status,
                ASKED_MS if request.invoked else TYPING_MS,
            )
            context, _ = await asyncio.gather(gathering, asyncio.sleep(pause_s))
            if context is not None:
                computation.is_sent = True
                settings = self._session.settings_of(computation.snapshot.uri)
                result = await fill(
                    client,
                    computation.snapshot,
                    [computation.hole],
                    replace(request.budget, reads_ahead=not request.invoked and may_read_ahead(settings)),
                    on_draft=partial(self._take_draft, state, computation),
                    context=context,
                    marker=request.marker,
                )
                self._is_failing = False
                return result
        except WorkerError as failure:
            level = logging.INFO if self._is_failing else logging.WARNING  # not on every keystroke
            log.log(level, "no inline completion: %s", failure)
            self._is_failing = True
            if request.invoked and isinstance(failure, StillLoadingError | WorkerUnresponsiveError):
                self._session.show_failure(failure)  # the connection reports all others
            return FillResult([], is_late=False, reason=str(failure))
        return FillResult([], is_late=False)

    def _complete(self, state: _DocumentState, computation: FillComputation, result: FillResult) -> None:
        """Stores the results and answers the waiting requests; recomputes if none continues what was typed."""
        self._remove(state, computation)
        state.history.add(computation.suggestions(result))
        is_reported = False
        for request in computation.waiting:
            if not request.is_open:
                continue  # it has timed out
            suggestions = state.history.suggestions_for(request)
            if not suggestions and computation.was_typed_in:
                self._recompute(state, [request])
                continue
            if not suggestions:
                reason = _REJECTED_MESSAGE if result.candidates else result.empty_reason(request.budget)
                log.debug("no inline completion: %s", reason)
                state.record_empty(request, reason)
            self._show(state, suggestions, request, None if is_reported else computation)
            request.answer(suggestions)
            is_reported = is_reported or bool(suggestions)

    def _show(
        self,
        state: _DocumentState,
        suggestions: ShownSuggestions,
        request: InlineRequest,
        computation: FillComputation | None = None,
    ) -> None:
        state.history.mark_shown(suggestions, invoked=request.invoked)
        if suggestions:
            first, _ = suggestions[0]
            waited_ms = request.budget.deadline.elapsed_ms if computation else None
            event = ShownEvent(first.computation_id, "asked" if request.invoked else "typing", waited_ms)
            self._session.features.shown(state.document.uri, event)

    def _recompute(self, state: _DocumentState, waiting: Sequence[InlineRequest]) -> None:
        """Computes, without a pause, for requests whose computation does not continue what the user typed."""
        for request in waiting:
            if request.is_open:
                request.pause_s = 0.0
                self._join_or_start(state, request)

    def _cancel(self, state: _DocumentState, computation: FillComputation) -> None:
        """Stops `computation` and answers its waiting requests with nothing."""
        if computation in state.running:
            self._end(state, computation)
            for request in computation.waiting:
                request.answer()

    def _end(self, state: _DocumentState, computation: FillComputation) -> None:
        self._remove(state, computation)
        if computation.task is not None:
            computation.task.cancel()

    def _cancel_unwanted(self, state: _DocumentState, *, prefetches: bool) -> None:
        """Stops the computations that no request waits for: either the prefetches, or all others."""
        for computation in tuple(state.running):
            if computation.is_prefetch is prefetches and not computation.is_wanted:
                self._cancel(state, computation)

    def _remove(self, state: _DocumentState, computation: FillComputation) -> None:
        state.running.remove(computation)
        if computation.expiry_timer is not None:
            computation.expiry_timer.cancel()


class CompletionListService(InlineService):
    """Serves an editor's completion list apart from its ghost text, so that neither supersedes the other's requests."""
