"""Asks the partner to improve a suggestion, and knows the recent fills that it could improve."""

import asyncio
import dataclasses
from collections.abc import Sequence

from inference.messages import REFINED_STRENGTH
from lsp_server.carve import Span
from lsp_server.documents.change import Change
from lsp_server.documents.document import Snapshot
from lsp_server.documents.tracking import ExpectedEdit, TextRange, smallest
from lsp_server.fill.feature import Feature, Taken
from lsp_server.fill.host import Host
from lsp_server.fill.pipeline import NOTHING_TO_CHANGE, Budget, FillOptions, fill
from lsp_server.inline.service import InlineService
from lsp_server.inline.suggestion import Suggestion

NO_PARTNER = "no partner is configured; set partner.url to the URL of a server with a larger model"
GONE = "the suggestion is gone, or other text was typed in its place"
SUPERSEDED = "a newer request to the partner replaced this one"


_MOST_FILLS = 16


class NotRefined(Exception):
    """The partner has nothing better. str() says why."""


class RecentFills:
    """The latest fills of one document at their current places, newest first. Must see every change."""

    def __init__(self) -> None:
        self._fills: list[tuple[TextRange, str]] = []
        """Their places, and the texts that were inserted there."""
        self._expected: tuple[Taken, ExpectedEdit, list[tuple[TextRange, str]]] | None = None

    def expect(self, taken: Taken, snapshot: Snapshot, spans: Sequence[Span], texts: Sequence[str]) -> None:
        """The editor gets these texts for the holes of `snapshot`. Only the latest such edit counts."""
        edit = ExpectedEdit(snapshot.text, [TextRange(span.start, span.end) for span in spans], texts)
        each = zip(spans, edit.places, texts, strict=True)
        new = [(at, text) for span, at, text in each if text.strip() and text != snapshot.text[span.start : span.end]]
        self._expected = taken, edit, new

    def add(self, start: int, text: str) -> None:
        """`text` was inserted at `start` of the current document."""
        if text.strip():
            self._fills = [(TextRange(start, start + len(text)), text), *self._fills][:_MOST_FILLS]

    def changed(self, changes: Sequence[Change], text: str) -> Taken | None:
        """`changes` led to `text`. Returns the answer that they inserted, if it was expected."""
        for change in map(smallest, changes):
            moved = [(place.after(change, began_as), began_as) for place, began_as in self._fills]
            self._fills = [(place, began_as) for place, began_as in moved if place and place.start < place.end]
        if self._expected is None:
            return None
        taken, edit, new = self._expected
        has_happened = edit.has_happened(changes, text)
        if has_happened:
            self._fills = [*new, *self._fills][:_MOST_FILLS]
        if has_happened or edit.is_given_up:
            self._expected = None
        return taken if has_happened else None

    def at(self, offset: int) -> TextRange | None:
        """The newest fill at a cursor; None if there is none."""
        return next((place for place, _ in self._fills if place.start <= offset <= place.end), None)


class Refining(Feature):
    """Must hear of a change before the services for suggestions, which then report accepted texts."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._recent: dict[str, RecentFills] = {}
        self._running: dict[str, tuple[str, asyncio.Task[None]]] = {}

    def changed(self, uri: str, changes: Sequence[Change]) -> None:
        recent = self._recent.get(uri)
        if recent is not None and changes:
            filled = recent.changed(changes, self._host.documents[uri].text)
            if filled is not None:
                self._host.broadcast.taken(uri, filled)
        if uri in self._running:
            asyncio.get_running_loop().call_soon(self._drop_gone, uri)  # the services hear of the change first

    def closed(self, uri: str) -> None:
        self._recent.pop(uri, None)
        if running := self._running.pop(uri, None):
            running[1].cancel()

    def taken(self, uri: str, taken: Taken) -> None:
        if taken.is_whole and taken.text:
            self._recent.setdefault(uri, RecentFills()).add(taken.start, taken.text)

    def rejected(self, uri: str, answer_id: str) -> None:
        self._drop_gone(uri)

    def expect(
        self, answer_id: str, snapshot: Snapshot, spans: Sequence[Span], texts: Sequence[str], *, is_refined: bool
    ) -> None:
        """The editor gets an edit that fills these holes; once it is in the text, the answer counts as taken."""
        taken = Taken(answer_id, 0, "", is_refined=is_refined)
        self._recent.setdefault(snapshot.uri, RecentFills()).expect(taken, snapshot, spans, texts)

    def fill_at(self, uri: str, offset: int) -> TextRange | None:
        """The place of the recent fill at a cursor; None if there is none."""
        recent = self._recent.get(uri)
        return recent.at(offset) if recent else None

    async def suggestion(self, uri: str, suggestion_id: str) -> None:
        """Shows the partner's text ahead of a suggestion. Raises NotRefined, WorkerFailure."""
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
            raise NotRefined(GONE if self._find(uri, suggestion_id) is None else SUPERSEDED)
        task.result()

    def _drop_gone(self, uri: str) -> None:
        """A suggestion may have been accepted or rejected: the partner is not asked about one that is gone."""
        name, task = self._running.get(uri, ("", None))
        if task is not None and self._find(uri, name) is None:
            task.cancel()

    def _find(self, uri: str, suggestion_id: str) -> tuple[InlineService, Suggestion] | None:
        services = self._host.broadcast.every(InlineService)
        known = ((service, service.suggestion(uri, suggestion_id)) for service in services)
        return next(((service, found) for service, found in known if found is not None), None)

    async def _refine(self, uri: str, suggestion_id: str) -> None:
        """The partner's deadline counts from its own request."""
        partner = self._host.partner_connection
        found = self._find(uri, suggestion_id)
        snapshot = self._host.snapshot(uri)
        if partner is None:
            raise NotRefined(NO_PARTNER)
        if found is None or snapshot is None:
            raise NotRefined(GONE)
        service, draft = found
        hole = _hole_of(draft, snapshot.text)
        settings = self._host.settings_of(uri)
        budget = dataclasses.replace(Budget.of(settings, invoked=True), candidates=1, retries=False)
        client = await partner.loaded()
        context = await self._host.context_for(snapshot, hole.start, client.last_status)
        if context is None:
            raise NotRefined(GONE)
        options = FillOptions(REFINED_STRENGTH, drafts=(draft.text,), only_whole=True)
        result = await fill(
            client, snapshot, [hole], budget.from_now(), options=options, context=context, marker=settings.marker
        )
        most = draft.text.count(settings.marker)
        texts = ((each.texts[0], each.confidence) for each in result.candidates)
        usable = ((text, sure) for text, sure in texts if text != draft.text and text.count(settings.marker) <= most)
        text, confidence = next(usable, ("", None))
        if confidence is None:
            raise NotRefined(NOTHING_TO_CHANGE if result.candidates else result.why_empty(budget))
        if not service.replace(uri, draft, text, confidence):
            raise NotRefined(GONE)


def _hole_of(draft: Suggestion, text: str) -> Span:
    """The hole of a suggestion in the current text; the fill must begin with the text typed in it."""
    anchor = draft.anchor
    hole = draft.hole
    typed = draft.typed(text)
    start = hole.starts_with if hole.starts_with.startswith(typed) else typed
    return dataclasses.replace(hole, start=anchor.start, end=anchor.end, starts_with=start)
