"""One session's numbers: the open documents, and whether the user wants anything recorded of each."""

from collections.abc import Callable, Sequence

from lsp_server.documents.change import Change
from lsp_server.documents.document import Document
from lsp_server.usage.document_usage import DocumentUsage
from lsp_server.usage.events import Event


def _nowhere(_uri: str, _event: Event) -> None:
    """Records nothing."""


class Usage:
    """`tell` is given the document of each event and the event. For one event loop."""

    def __init__(self, tell: Callable[[str, Event], None] = _nowhere) -> None:
        self._tell = tell
        self._documents: dict[str, DocumentUsage] = {}

    def of(self, document: Document) -> DocumentUsage:
        """The numbers of an open document."""
        known = self._documents.get(document.uri)
        if known is None or known.document is not document:
            self.forget(document.uri)
            known = self._documents[document.uri] = DocumentUsage(
                document, lambda event: self._tell(document.uri, event)
            )
        return known

    def changed(self, uri: str, changes: Sequence[Change]) -> None:
        """A document has changed. To be told before those who tell what that means, such as that a text was taken."""
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
