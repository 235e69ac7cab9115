"""Carving divides a text into holes and pinned parts: text in, spans out. Knows no LSP types, files or worker."""

from lsp_server.carve.cursor import hole_at
from lsp_server.carve.functions import body_of, extent, functions_around, whole_hole
from lsp_server.carve.markers import DEFAULT_MARKER, marker_touching, markers, placeholders
from lsp_server.carve.segments import Span, segments, splice, unmarked
from lsp_server.carve.selecting import selection, statement_around, statement_at, statement_start
from lsp_server.syntax.languages import table_of
from lsp_server.syntax.parsing import Source
from lsp_server.syntax.view import View

__all__ = [
    "DEFAULT_MARKER",
    "Span",
    "at_cursor",
    "body_around",
    "function_around",
    "markers",
    "placeholders",
    "segments",
    "selection",
    "splice",
    "statement_around",
    "statement_at",
    "statement_start",
    "unmarked",
]


def at_cursor(source: Source, offset: int, marker: str = DEFAULT_MARKER) -> Span | None:
    """The hole at a cursor, a marker first; None if a suggestion would only be in the way, as inside a word."""
    text = source.text
    if text.startswith("\r\n", offset - 1) and offset > 0:
        offset -= 1  # it was between the two characters of a line end
    touching = marker_touching(source, marker, offset)
    return touching or hole_at(text, table_of(source.language_id), View.of(source), offset)


def function_around(source: Source, start: int, end: int) -> tuple[int, int] | None:
    """The start and end of the innermost function with its decorators; None outside, and without a grammar."""
    view = View.of(source)
    function = next(iter(functions_around(view, start, end)), None) if view else None
    return extent(view, function) if view and function else None


def body_around(source: Source, offset: int) -> Span | None:
    """The body of the innermost function at `offset`, existing or missing; None outside, and without a grammar."""
    view = View.of(source)
    if view is None:
        return None
    bodies = (body_of(view, function) for function in functions_around(view, offset, offset))
    return next((whole_hole(view, body) for body in bodies if body), None)
