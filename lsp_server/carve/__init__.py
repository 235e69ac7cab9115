"""Carving: which part of a text is a hole and which is pinned. Text in, spans out.

Offsets are indices into a Python `str`. Nothing here knows the LSP, files, the worker or the model.
"""

from lsp_server.carve.cursor import hole_at
from lsp_server.carve.fallback import plain_hole_at
from lsp_server.carve.functions import body_of, extent, functions_around, whole_hole
from lsp_server.carve.markers import DEFAULT_MARKER, marker_spans, marker_touching
from lsp_server.carve.placeholders import placeholder_spans
from lsp_server.carve.plain_functions import plain_body_around, plain_function_around
from lsp_server.carve.segments import Span, segments, splice, unmarked
from lsp_server.carve.selecting import selected, statement_over
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
    "unmarked",
]


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


def placeholders(source: Source, marker: str = DEFAULT_MARKER, start: int = 0, end: int | None = None) -> list[Span]:
    """Everything within [start, end) that asks to be filled, in order, never overlapping; `end` None: the text's end.

    The markers, as `markers` returns them, and what stands for code that is missing: a function whose body is only
    `...`, `pass`, `raise NotImplementedError`, `todo!()` or whatever else the language's users write there, is empty,
    or holds nothing but a comment that says TODO. Documentation and comments stay. Without a grammar: the markers.
    Raises ValueError for an empty marker or a range outside the text.
    """
    last = len(source.text) if end is None else end
    _check(source, start, last)
    return placeholder_spans(source, marker, start, last)


def function_around(source: Source, start: int, end: int) -> tuple[int, int] | None:
    """Where the innermost function or method that contains [start, end] starts and ends, with its decorators.

    None outside of functions. Without a grammar the looks of a line and indentation decide. Raises ValueError for a
    range outside the text.
    """
    _check(source, start, end)
    view = View.of(source)
    if view is None:
        plain = plain_function_around(source.text, start, end)
        return None if plain is None else (plain.start, plain.end)
    function = next(iter(functions_around(view, start, end)), None)
    return function and extent(view, function)


def body_around(source: Source, offset: int) -> Span | None:
    """The body of the innermost function at `offset`, present or missing, as one hole to be written anew.

    Documentation stays. None outside of functions. Raises ValueError for an offset outside the text.
    """
    _check(source, offset, offset)
    view = View.of(source)
    if view is None:
        return plain_body_around(source.text, table_of(source.language_id), offset)
    bodies = (body_of(view, function) for function in functions_around(view, offset, offset))
    return next((whole_hole(view, body) for body in bodies if body), None)


def selection(source: Source, start: int, end: int) -> Span | None:
    """A selection as one hole to be reworked, white space at its edges left out; None where nothing is left.

    Its kind is what the syntax makes of it; it is a `single_line` if it is one. Raises ValueError outside the text.
    """
    _check(source, start, end)
    return selected(source, start, end)


def statement_around(source: Source, start: int, end: int) -> Span | None:
    """The innermost statement that covers [start, end], to be repaired: of one that holds others, only its header.

    In broken code, and without a grammar, the lines of the range. None on a blank line. Raises ValueError outside.
    """
    _check(source, start, end)
    return statement_over(source, start, end)


def _check(source: Source, start: int, end: int) -> None:
    if not 0 <= start <= end <= len(source.text):
        raise ValueError(f"{start}..{end} is no range of a text of {len(source.text)} characters")
