"""Asks the partner to improve the model's drafts, and keeps its texts until the editor asks for them."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from inference.messages import REFINED_STRENGTH
from lsp_server import carve
from lsp_server.carve import Span
from lsp_server.documents.change import Change
from lsp_server.documents.document import Snapshot
from lsp_server.documents.tracking import TextRange
from lsp_server.fill.host import Host
from lsp_server.fill.pipeline import Budget, FillOptions, FillResult, fill
from lsp_server.inline.runner import Connection
from lsp_server.inline.service import InlineService
from lsp_server.inline.suggestion import Suggestion
from lsp_server.refine.comparison import NotRefined, is_better, usable
from lsp_server.refine.made_fills import Better, Made, MadeFill, MadeFills
from lsp_server.worker import WorkerFailure
from lsp_server.worker.failure import traceback_of
from lsp_server.worker.options import is_remote

log = logging.getLogger(__name__)
NO_PARTNER = "no partner is configured; set partner.url to the URL of a server with a larger model"
GONE = "the suggestion is gone, or other text was typed in its place"
SUPERSEDED = "the partner was asked again meanwhile"
UNWANTED = "the setting `refine` is off"
UNSURE_BELOW = 0.8
"""Below this mean confidence the model is unsure of its text. Of 40 tuning holes of one line, the 0.5B filled none of
the 17 below it exactly, and 10 of the other 23. At 0.5, only one of the 40 would have gone to the partner.
"""


class Partner(Connection, Protocol):
    """The connection to the partner."""

    def asked(self) -> AbstractContextManager[None]:
        """While it is open, the user waits for the partner and sees failures."""


class RefiningHost(Host, Protocol):
    """What refining needs from a session. There may be no partner, and a document may not be filled."""

    @property
    def partner_connection(self) -> Partner | None: ...
    @property
    def inline_services(self) -> Sequence[InlineService]: ...
    def snapshot(self, uri: str) -> Snapshot | None: ...


class Refining:
    """`tell` receives what has improved, a suggestion's id or a fill's range; `sends` receives what is asked about."""

    def __init__(
        self,
        host: RefiningHost,
        tell: Callable[[str, str | TextRange], None],
        sends: Callable[[str, str | TextRange], None],
    ) -> None:
        self._host, self._tell, self._sends = host, tell, sends
        self._made: dict[str, MadeFills] = {}
        self._running: dict[str, tuple[str, asyncio.Task[None]]] = {}

    def changed(self, uri: str, changes: Sequence[Change]) -> None:
        """A document has changed. Call this before the services for suggestions."""
        document, made = self._host.documents.get(uri), self._made.get(uri)
        if document is not None and made is not None and changes:
            new = made.changed(changes, document.text)
            if new is not None and self._is_unsure(uri, new.confidence):
                for fill_made in new.fills:
                    self._sends(uri, fill_made.place)
                self._begin(uri, "", self._offer_for_fills(uri, new))

    def drop_gone(self, uri: str, _changes: Sequence[Change] = ()) -> None:
        """A suggestion may have been accepted or rejected: the partner is not asked about one that is gone."""
        name, task = self._running.get(uri, ("", None))
        if name and task is not None and self._find(uri, name) is None:
            task.cancel()

    def forget(self, uri: str) -> None:
        """The document was closed."""
        self._made.pop(uri, None)
        if running := self._running.pop(uri, None):
            running[1].cancel()

    def expect(self, snapshot: Snapshot, spans: Sequence[Span], texts: Sequence[str], confidence: float) -> None:
        """The editor gets an edit that fills these holes."""
        self._of(snapshot.uri).expect(snapshot, spans, texts, confidence)

    def taken(self, uri: str, start: int, text: str) -> None:
        """A whole suggestion was accepted and is now at `start`."""
        self._of(uri).add(start, text)

    def shown(self, uri: str, suggestion: Suggestion) -> None:
        """The user asked for suggestions and sees this one first."""
        if self._is_unsure(uri, suggestion.confidence):
            self._sends(uri, suggestion.id)
            self._begin(uri, suggestion.id, self._refine_suggestion(uri, suggestion.id, is_asked=False))

    def fill_at(self, uri: str, offset: int) -> tuple[int, int] | None:
        """The place of the recent fill at a cursor; None if there is none."""
        made = self._made.get(uri)
        found = made.at(offset) if made else None
        return (found.place.start, found.place.end) if found else None

    def ready(self, snapshot: Snapshot, spans: Sequence[Span]) -> tuple[str, ...] | None:
        """The partner's stored texts for these holes; None if it must be asked."""
        made = self._made.get(snapshot.uri)
        found = [made.better(span.start, span.end, snapshot.text) if made else None for span in spans]
        texts = tuple(text for text in found if text is not None)
        return texts if texts and len(texts) == len(spans) else None

    async def suggestion(self, uri: str, suggestion_id: str) -> None:
        """Has a suggestion refined, and substitutes the partner's text. Raises NotRefined, WorkerFailure."""
        if self._host.partner_connection is not None and self._find(uri, suggestion_id) is not None:
            self._sends(uri, suggestion_id)
        task = self._begin(uri, suggestion_id, self._refine_suggestion(uri, suggestion_id, is_asked=True))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise NotRefined(GONE if self._find(uri, suggestion_id) is None else SUPERSEDED) from None
            task.cancel()  # the request itself was cancelled
            raise

    def _of(self, uri: str) -> MadeFills:
        return self._made.setdefault(uri, MadeFills())

    def _is_unsure(self, uri: str, confidence: float) -> bool:
        """Never if the model is on a server: it may be as large as the partner, or be the partner."""
        settings = self._host.settings_of(uri)
        is_wanted = settings.refine == "unsure" and self._host.partner_connection is not None
        is_small = not is_remote(self._host.model_client.options)
        return is_wanted and is_small and confidence < UNSURE_BELOW

    def _begin(self, uri: str, name: str, work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        """Runs `work` instead of the earlier work for the document."""
        if running := self._running.pop(uri, None):
            running[1].cancel()
        task = asyncio.create_task(work, name="refine")
        self._running[uri] = name, task
        task.add_done_callback(lambda _: self._ended(uri, task))
        return task

    def _ended(self, uri: str, task: "asyncio.Task[None]") -> None:
        if self._running.get(uri, ("", None))[1] is task:
            del self._running[uri]
        error = None if task.cancelled() else task.exception()
        if isinstance(error, NotRefined | WorkerFailure):
            log.info("nothing better than the draft: %s", error)
        elif error is not None:
            log.error("refining failed: %s", traceback_of(error))

    def _find(self, uri: str, suggestion_id: str) -> tuple[InlineService, Suggestion] | None:
        known = ((service, service.suggestion(uri, suggestion_id)) for service in self._host.inline_services)
        return next(((service, found) for service, found in known if found is not None), None)

    async def _refine_suggestion(self, uri: str, suggestion_id: str, *, is_asked: bool) -> None:
        """An explicitly requested text is shown even if the draft looks better."""
        found, snapshot = self._find(uri, suggestion_id), self._host.snapshot(uri)
        if found is None or snapshot is None:
            raise NotRefined(GONE)
        service, draft = found
        hole, budget = _hole_of(draft, snapshot.text), self._budget(uri)
        result = await self._ask(snapshot, [hole], (draft.text,), budget, is_asked=is_asked)
        marker = self._host.settings_of(uri).marker
        text, confidence = usable(result, budget, (draft.text,), marker)
        if not is_asked and not await is_better(snapshot, [hole], (draft.text,), text):
            raise NotRefined("the draft is as good")
        if not service.replace(uri, draft, text[0], confidence):
            raise NotRefined(GONE)
        self._tell(uri, suggestion_id)

    async def _offer_for_fills(self, uri: str, made: Made) -> None:
        """Stores the partner's texts for recent fills if they are better."""
        snapshot = self._host.snapshot(uri)
        if snapshot is None or not made.fills:
            return
        known = self._of(uri)  # the fills may have been edited meanwhile
        standing = [now for each in made.fills if (now := known.now(each))]
        pairs = [
            (each, span) for each in standing if (span := carve.selection(snapshot, each.place.start, each.place.end))
        ]
        if not pairs:
            return
        spans = [span for _, span in pairs]
        drafts = tuple(snapshot.text[span.start : span.end] for span in spans)
        budget = self._budget(uri)
        result = await self._ask(snapshot, spans, drafts, budget, is_asked=False)
        texts, _ = usable(result, budget, drafts, self._host.settings_of(uri).marker)
        if not await is_better(snapshot, spans, drafts, texts):
            raise NotRefined("the draft is as good")
        for (each, _), draft, text in zip(pairs, drafts, texts, strict=True):
            self._keep(uri, each, Better(draft, text))

    def _keep(self, uri: str, fill: MadeFill, better: Better) -> None:
        """Skips a fill that the user has changed, or that nothing improves."""
        made, document = self._made.get(uri), self._host.documents.get(uri)
        now = made.now(fill) if made else None
        if made is None or document is None or now is None or better.draft == better.text:
            return
        if now.place.of(document.text).strip() == better.draft.strip():
            made.offer(fill, better)
            self._tell(uri, now.place)

    def _budget(self, uri: str) -> Budget:
        """The partner's budget: one answer, within the user's deadline for explicit requests."""
        budget = Budget.of(self._host.settings_of(uri), invoked=True)
        return dataclasses.replace(budget, candidates=1, retries=False)

    async def _ask(
        self, snapshot: Snapshot, spans: Sequence[Span], drafts: tuple[str, ...], budget: Budget, *, is_asked: bool
    ) -> FillResult:
        """The partner's version of the drafts. Its deadline counts from its own request."""
        partner = self._host.partner_connection
        if partner is None:
            raise NotRefined(NO_PARTNER)
        with partner.asked() if is_asked else nullcontext():
            client = await partner.loaded()
            if not await self._host.may_send(snapshot):
                raise NotRefined(GONE)
            context = await self._host.context_for(snapshot, spans[0].start, client.last_status)
            if not is_asked and self._host.settings_of(snapshot.uri).refine != "unsure":
                raise NotRefined(UNWANTED)  # since this began to wait
            options = FillOptions(REFINED_STRENGTH, drafts=drafts, only_whole=True)
            marker = self._host.settings_of(snapshot.uri).marker
            return await fill(
                client, snapshot, spans, budget.from_now(), options=options, context=context, marker=marker
            )


def _hole_of(draft: Suggestion, text: str) -> Span:
    """The hole of a suggestion in the current text; the fill must begin with the text typed in it."""
    anchor, hole, typed = draft.anchor, draft.hole, draft.typed(text)
    start = hole.starts_with if hole.starts_with.startswith(typed) else typed
    return dataclasses.replace(hole, start=anchor.start, end=anchor.end, starts_with=start)
