"""The latest fills of one document, at their current places."""

from collections.abc import Sequence

from lsp_server.carve import Span
from lsp_server.documents.change import Change
from lsp_server.documents.document import Snapshot
from lsp_server.documents.tracking import ExpectedEdit, TextRange, smallest
from lsp_server.fill.feature import Taken

KEPT = 16


class RecentFills:
    """Newest first. Must see every change."""

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
            self._fills = [(TextRange(start, start + len(text)), text), *self._fills][:KEPT]

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
            self._fills = [*new, *self._fills][:KEPT]
        if has_happened or edit.is_given_up:
            self._expected = None
        return taken if has_happened else None

    def at(self, offset: int) -> TextRange | None:
        """The newest fill at a cursor; None if there is none."""
        return next((place for place, _ in self._fills if place.start <= offset <= place.end), None)
