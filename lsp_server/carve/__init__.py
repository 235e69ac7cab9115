"""Carving divides a text into holes and pinned parts: text in, spans out.

Offsets are indices into a Python `str`. Knows no LSP types, files, worker or model.
"""

from lsp_server.carve.cursor import hole_at
from lsp_server.carve.functions import body_of, extent, functions_around, whole_hole
from lsp_server.carve.markers import DEFAULT_MARKER, marker_spans, marker_touching
from lsp_server.carve.placeholders import placeholder_spans
from lsp_server.carve.plain_text import plain_body_around, plain_function_around, plain_hole_at
from lsp_server.carve.segments import Span, segments, splice, unmarked
from lsp_server.carve.selecting import selected, start_of_statement, statement_over
from lsp_server.syntax.languages import table_of
from lsp_server.syntax.source import Source
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
    "statement_start",
    "unmarked",
]


def at_cursor(source: Source, offset: int, marker: str = DEFAULT_MARKER) -> Span | None:
    """The hole at a cursor. A marker that the cursor touches is the hole.

    None if a suggestion would only get in the way: in the middle of a word, before code outside brackets, after a
    header that has its block. Raises ValueError if `offset` is outside the text.
    """
    text = source.text
    if not 0 <= offset <= len(text):
        raise ValueError(f"offset {offset} is outside a text of {len(text)} characters")
    if text.startswith("\r\n", offset - 1) and offset > 0:
        offset -= 1  # it was between the two characters of a line end
    touching = marker_touching(source, marker, offset)
    if touching:
        return touching
    view = View.of(source)
    return plain_hole_at(text, table_of(source.language_id), offset) if view is None else hole_at(view, offset)


def markers(source: Source, marker: str = DEFAULT_MARKER, start: int = 0, end: int | None = None) -> list[Span]:
    """The markers within [start, end), left to right. `end` None means the end of the text.

    A marker that is a statement alone on its line is a `BODY` or, among other statements, a `BLOCK`, and may become
    several lines. Any other is a `MARKER` of a single line. Raises ValueError for an empty marker.
    """
    return marker_spans(source, marker, start, len(source.text) if end is None else end)


def placeholders(source: Source, marker: str = DEFAULT_MARKER, start: int = 0, end: int | None = None) -> list[Span]:
    """All holes within [start, end), in order and without overlaps. `end` None means the end of the text.

    These are the `markers`, and placeholders for missing code: a function whose body is only `...`, `pass`, `raise
    NotImplementedError`, `todo!()` or the like, is empty, or contains only a comment with TODO. Raises ValueError for
    an empty marker or a range outside the text.
    """
    last = len(source.text) if end is None else end
    _check(source, start, last)
    return placeholder_spans(source, marker, start, last)


def function_around(source: Source, start: int, end: int) -> tuple[int, int] | None:
    """The start and end of the innermost function or method that contains [start, end], with its decorators.

    None outside of functions. Without a grammar, guesses from indentation and header-like lines. Raises ValueError for
    a range outside the text.
    """
    _check(source, start, end)
    view = View.of(source)
    if view is None:
        plain = plain_function_around(source.text, start, end)
        return None if plain is None else (plain.start, plain.end)
    function = next(iter(functions_around(view, start, end)), None)
    return function and extent(view, function)


def body_around(source: Source, offset: int) -> Span | None:
    """The body of the innermost function at `offset`, present or missing, as one hole to rewrite.

    Documentation stays. None outside of functions. Raises ValueError for an offset outside the text.
    """
    _check(source, offset, offset)
    view = View.of(source)
    if view is None:
        return plain_body_around(source.text, table_of(source.language_id), offset)
    bodies = (body_of(view, function) for function in functions_around(view, offset, offset))
    return next((whole_hole(view, body) for body in bodies if body), None)


def selection(source: Source, start: int, end: int) -> Span | None:
    """A selection, without white space at its edges, as one hole to rework; None if nothing is left.

    The syntax decides its kind; it is `single_line` if it has no line end. Raises ValueError for a range outside the
    text.
    """
    _check(source, start, end)
    return selected(source, start, end)


def statement_around(source: Source, start: int, end: int) -> Span | None:
    """The innermost statement that covers [start, end], as a hole to repair; only the header of a compound one.

    In broken code, and without a grammar: the lines of the range. None on a blank line. Raises ValueError for a range
    outside the text.
    """
    _check(source, start, end)
    return statement_over(source, start, end)


def statement_start(source: Source, offset: int) -> int:
    """The start of the innermost statement at `offset`, or on a blank line of the statement before it.

    In broken code, and without a grammar: the start of the line. Raises ValueError for an offset outside the text.
    """
    _check(source, offset, offset)
    return start_of_statement(source, offset)


def _check(source: Source, start: int, end: int) -> None:
    if not 0 <= start <= end <= len(source.text):
        raise ValueError(f"{start}..{end} is not a range in a text of {len(source.text)} characters")
