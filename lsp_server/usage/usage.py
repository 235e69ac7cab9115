"""One session's numbers: the open documents, and whether the user wants records of each."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from lsp_server.documents.change import Change
from lsp_server.documents.document import Document
from lsp_server.usage.document_usage import DocumentUsage
from lsp_server.usage.events import Event
from lsp_server.usage.place import usage_file
from lsp_server.usage.writer import UsageWriter


class Usage:
    """`tell` receives each event with its document. For one event loop."""

    def __init__(self, tell: Callable[[str, Event], None]) -> None:
        self._tell = tell
        self._documents: dict[str, DocumentUsage] = {}

    def of(self, document: Document) -> DocumentUsage:
        """The numbers of an open document."""
        known = self._documents.get(document.uri)
        if known is None or known.document is not document:
            self.forget(document.uri)
            known = DocumentUsage(document, lambda event: self._tell(document.uri, event))
            self._documents[document.uri] = known
        return known

    def changed(self, uri: str, changes: Sequence[Change]) -> None:
        """A document has changed. Call this before anything that reports a consequence, such as an accepted text."""
        if changes and (known := self._documents.get(uri)):
            known.changed(changes)

    def saved(self, uri: str) -> None:
        """A document was saved."""
        if known := self._documents.get(uri):
            known.saved()

    def refused(self, uri: str) -> None:
        """The editor did not apply the last fill of a document."""
        if known := self._documents.get(uri):
            known.refused()

    def forget(self, uri: str) -> None:
        """A document was closed."""
        if known := self._documents.pop(uri, None):
            known.close()


CLOSE_S = 3.0
"""The end of a session waits this long for pending writes."""


class Recorder:
    """`is_wanted` tells whether to record a document; `warn` is called on the event loop with problems."""

    def __init__(self, is_wanted: Callable[[str], bool], warn: Callable[[str], None]) -> None:
        self._is_wanted, self._warn = is_wanted, warn
        self._writer = UsageWriter(usage_file, self._tell)
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, uri: str, event: Event) -> None:
        """Something has happened in a document."""
        if self._is_wanted(uri):
            self._loop = asyncio.get_running_loop()
            self._writer.add(event)

    async def close(self) -> None:
        """Waits for pending writes, but not for a hung disk."""
        await asyncio.to_thread(self._writer.close, CLOSE_S)

    def _tell(self, message: str) -> None:
        """Runs in the writing thread."""
        with suppress(RuntimeError):  # the loop has ended
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._warn, message)
