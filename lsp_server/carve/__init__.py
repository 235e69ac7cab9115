"""Carving: which part of a text is a hole and which is pinned. Text in, spans out.

Offsets are indices into a Python `str`. Nothing here knows the LSP, files, the worker or the model.
"""

from lsp_server.carve.cursor import hole_at
from lsp_server.carve.fallback import plain_hole_at
from lsp_server.carve.languages import language_of, table_of
from lsp_server.carve.markers import DEFAULT_MARKER, marker_spans, marker_touching
from lsp_server.carve.parsing import parse
from lsp_server.carve.segments import segments, splice
from lsp_server.carve.source import Parsed, Source, Span
from lsp_server.carve.view import View

__all__ = [
    "DEFAULT_MARKER",
    "Parsed",
    "Source",
    "Span",
    "at_cursor",
    "language_of",
    "markers",
    "parse",
    "read",
    "segments",
    "splice",
]


def read(language_id: str, text: str) -> Parsed:
    """A text that belongs to no open document, parsed and ready to be carved."""
    return Parsed(text, language_id, parse(language_id, text))


def at_cursor(source: Source, offset: int, marker: str = DEFAULT_MARKER) -> Span | None:
    """The hole at a cursor; a marker that the cursor touches is its own hole.

    None where a suggestion would only be in the way: in the middle of a word, in front of code that is not inside
    brackets, behind a header whose block is there. Raises ValueError when `offset` is outside the text.
    """
    text = source.text
    if not 0 <= offset <= len(text):
        raise ValueError(f"offset {offset} is outside a text of {len(text)} characters")
    if text.startswith("\r\n", offset - 1) and offset > 0:
        offset -= 1  # between the two characters of a line end
    touching = marker_touching(source, marker, offset)
    if touching:
        return touching
    view = View.of(source)
    return plain_hole_at(text, table_of(source.language_id), offset) if view is None else hole_at(view, offset)


def markers(source: Source, marker: str = DEFAULT_MARKER, start: int = 0, end: int | None = None) -> list[Span]:
    """The markers that lie within [start, end), left to right; `end` None is the end of the text.

    A marker alone on its line as a statement is a `BODY` (all of its block) or a `BLOCK` (one statement among others),
    and may become several lines; every other one is a `MARKER` of a single line. Raises ValueError for an empty marker.
    """
    return marker_spans(source, marker, start, len(source.text) if end is None else end)
