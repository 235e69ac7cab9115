"""Has the partner, a larger model, improve a suggestion."""

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inference.messages import REFINED_STRENGTH
from lsp_server.documents.change import TextChange
from lsp_server.documents.document import Snapshot
from lsp_server.features import AcceptedEvent, Feature
from lsp_server.fill.pipeline import NOTHING_TO_CHANGE_MESSAGE, FillBudget, FillOptions, fill
from lsp_server.holes import HoleSpan, splice
from lsp_server.inline.service import InlineService
from lsp_server.inline.suggestion import Suggestion

if TYPE_CHECKING:
    from lsp_server.session import Session

NO_PARTNER_MESSAGE = "no partner is configured; set partner.url to the URL of a server with a larger model"
GONE_MESSAGE = "the suggestion is gone, or other text was typed in its place"
SUPERSEDED_MESSAGE = "a newer request to the partner replaced this one"


class NotRefinedError(Exception):
    """The partner has nothing better. str() says why."""


class PartnerRefiner(Feature):
    """Improves suggestions, and reports an action as accepted once its edit is in the text."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._expected: dict[str, tuple[str, int]] = {}
        """By document: the id of the last action sent as an edit, and the hash of the text after it."""
        self._running: dict[str, tuple[str, asyncio.Task[None]]] = {}

    def changed(self, uri: str, changes: Sequence[TextChange]) -> None:
        answer_id, expected = self._expected.get(uri, ("", 0))
        if answer_id and hash(self._session.documents[uri].text) == expected:
            del self._expected[uri]
            self._session.features.accepted(uri, AcceptedEvent(answer_id))
        if uri in self._running:
            asyncio.get_running_loop().call_soon(self._drop_gone, uri)  # the services hear of the change first

    def closed(self, uri: str) -> None:
        self._expected.pop(uri, None)
        if running := self._running.pop(uri, None):
            running[1].cancel()

    def rejected(self, uri: str, answer_id: str) -> None:
        self._drop_gone(uri)

    def expect_edit(self, answer_id: str, snapshot: Snapshot, spans: Sequence[HoleSpan], texts: Sequence[str]) -> None:
        """Expects an edit that fills these holes: once it is in the text, the answer counts as accepted."""
        self._expected[snapshot.uri] = answer_id, hash(splice(snapshot.text, spans, texts))

    async def refine_suggestion(self, uri: str, suggestion_id: str) -> None:
        """Shows the partner's text ahead of a suggestion. Raises NotRefinedError, WorkerError."""
        if running := self._running.pop(uri, None):
            running[1].cancel()
        task = asyncio.create_task(self._refine(uri, suggestion_id), name="refine")
        self._running[uri] = suggestion_id, task
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
            if self._running.get(uri) == (suggestion_id, task):
                del self._running[uri]
        if task.cancelled():
            is_gone = self._find_suggestion(uri, suggestion_id) is None
            raise NotRefinedError(GONE_MESSAGE if is_gone else SUPERSEDED_MESSAGE)
        task.result()

    def _drop_gone(self, uri: str) -> None:
        """Cancels the refinement of a suggestion that was accepted or rejected meanwhile."""
        name, task = self._running.get(uri, ("", None))
        if task is not None and self._find_suggestion(uri, name) is None:
            task.cancel()

    def _find_suggestion(self, uri: str, suggestion_id: str) -> tuple[InlineService, Suggestion] | None:
        services = self._session.features.of_class(InlineService)
        suggestions = ((service, service.find_suggestion(uri, suggestion_id)) for service in services)
        return next(((service, suggestion) for service, suggestion in suggestions if suggestion is not None), None)

    async def _refine(self, uri: str, suggestion_id: str) -> None:
        """Requests the refinement. The deadline counts from this request on."""
        partner = self._session.partner_connection
        service_and_draft = self._find_suggestion(uri, suggestion_id)
        snapshot = self._session.snapshot(uri)
        if partner is None:
            raise NotRefinedError(NO_PARTNER_MESSAGE)
        if service_and_draft is None or snapshot is None:
            raise NotRefinedError(GONE_MESSAGE)
        service, draft = service_and_draft
        hole = _hole_of(draft, snapshot.text)
        settings = self._session.settings_of(uri)
        budget = dataclasses.replace(FillBudget.from_settings(settings, invoked=True), candidates=1, may_retry=False)
        client = partner.client
        await client.load()
        context = await self._session.context_for(snapshot, hole.start, client.last_status)
        if context is None:
            raise NotRefinedError(GONE_MESSAGE)
        options = FillOptions(REFINED_STRENGTH, drafts=(draft.text,), only_whole=True)
        result = await fill(
            client, snapshot, [hole], budget.restarted(), options=options, context=context, marker=settings.marker
        )
        max_markers = draft.text.count(settings.marker)
        texts = (candidate.texts[0] for candidate in result.candidates)
        usable = (text for text in texts if text != draft.text and text.count(settings.marker) <= max_markers)
        text = next(usable, None)
        if text is None:
            raise NotRefinedError(NOTHING_TO_CHANGE_MESSAGE if result.candidates else result.empty_reason(budget))
        if not service.show_refined(uri, draft, text):
            raise NotRefinedError(GONE_MESSAGE)


def _hole_of(draft: Suggestion, text: str) -> HoleSpan:
    """The hole of a suggestion in the current text; the fill must begin with the text typed in it."""
    anchor = draft.anchor
    hole = draft.hole
    typed = draft.typed_part(text)
    start = hole.starts_with if hole.starts_with.startswith(typed) else typed
    return dataclasses.replace(hole, start=anchor.start, end=anchor.end, starts_with=start)
