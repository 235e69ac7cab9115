"""Which hole an inline completion is for."""

from dataclasses import replace

from lsp_server import carve
from lsp_server.documents.document import Snapshot
from lsp_server.inline.suggestion import Cursor


def hole_for(snapshot: Snapshot, cursor: Cursor, marker: str) -> carve.Span | None:
    """The hole at a cursor, as far as an editor can show what is put there: on one line of the document.

    With an item selected in the editor's list, the fill extends that item, in its place.
    """
    hole = carve.at_cursor(snapshot, cursor.offset, marker)
    if hole is None or snapshot.lines.line_of(hole.start) != snapshot.lines.line_of(hole.end):
        return None
    if cursor.selected is None:
        return hole
    start, end, text = cursor.selected
    if not start <= cursor.offset <= end:
        return None
    return replace(hole, start=start, end=max(hole.end, end), starts_with=text)
