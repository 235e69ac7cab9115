"""Prefills the prompt where the cursor rests, so that the first suggestion there comes sooner.

The worker prefills in small chunks while nobody waits, and decodes nothing. Only a local, loaded model does so.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
from msgspec.structs import replace

from lsp_server.documents.change import TextChange
from lsp_server.documents.document import Document
from lsp_server.features import Feature
from lsp_server.fill.pipeline import FillBudget, build_request
from lsp_server.inline.anchor import Cursor
from lsp_server.inline.request import hole_for_ghost_text
from lsp_server.settings.schema import Settings
from lsp_server.syntax.lines import line_start
from lsp_server.worker import WorkerError

if TYPE_CHECKING:
    from lsp_server.session import Session

log = logging.getLogger(__name__)


class ReadAheadPrefill(Feature):
    """Prefills once per line and version of a document, for the position where the cursor rested last."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._prefilled_line: tuple[str, int, int] | None = None
        """The document, its version, and the start of the line that was prefilled last."""
        self._task: asyncio.Task[None] | None = None

    def cursor_rested(self, document: Document, offset: int) -> None:
        line = document.uri, document.version, line_start(document.text, offset)
        client = self._session.worker.client
        is_local = client.last_status is not None and not client.last_status.server
        if line == self._prefilled_line or not (client.has_model and is_local):
            return
        settings = self._session.settings_of(document.uri)
        if may_read_ahead(settings):
            self._stop()
            self._prefilled_line = line
            self._task = asyncio.create_task(self._prefill(document, offset, settings))

    def changed(self, uri: str, changes: Sequence[TextChange]) -> None:
        self._stop()

    def closed(self, uri: str) -> None:
        self._stop()

    async def ended(self) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _prefill(self, document: Document, offset: int, settings: Settings) -> None:
        snapshot = await self._session.parsed_snapshot(document)
        hole = hole_for_ghost_text(snapshot, Cursor(offset), settings.marker) if snapshot else None
        if snapshot is None or hole is None:
            return
        client = self._session.worker.client
        context = await self._session.context_for(snapshot, hole.start, client.last_status)
        if context is None:
            return
        budget = FillBudget.from_settings(settings, invoked=False)
        request = build_request(snapshot, [hole], budget, context=context, marker=settings.marker)
        try:
            deadline_ms = budget.restarted().model_deadline_ms(1)  # the window depends on it, as a later request's does
            await client.request(replace(request, deadline_ms=deadline_ms, prefill_only=True))
        except WorkerError as failure:
            log.info("nothing is read ahead: %s", failure)


def may_read_ahead(settings: Settings) -> bool:
    battery = None
    with suppress(OSError, AttributeError):  # some systems cannot tell
        battery = psutil.sensors_battery() if settings.read_ahead == "mains" else None
    return settings.read_ahead != "off" and (battery is None or bool(battery.power_plugged))
