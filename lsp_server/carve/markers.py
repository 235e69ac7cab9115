"""Finds markers, `???` by default, even in a string or comment. They break the parse, so only tokens count."""

import re
from collections.abc import Iterator, Sequence

from inference.messages import HoleKind
from lsp_server.carve.brackets import in_expression, open_brackets
from lsp_server.carve.segments import Span
from lsp_server.syntax import lines
from lsp_server.syntax.languages import table_of
from lsp_server.syntax.source import Source
from lsp_server.syntax.strings_and_comments import string_or_comment_at
from lsp_server.syntax.view import View

DEFAULT_MARKER = "???"
MAX_MARKERS = 5000
"""More are left for the next time: no answer fills as many."""


def markers(source: Source, marker: str = DEFAULT_MARKER, start: int = 0, end: int | None = None) -> list[Span]:
    """The first `MAX_MARKERS` within [start, end), left to right. One alone on its line is a `BODY` or a `BLOCK` and
    may become several lines; any other is a `MARKER`. Raises ValueError for an empty marker.
    """
    if not marker:
        raise ValueError("the marker is empty")
    found = [at for at in _occurrences(source.text, marker, 0, end) if start <= at]
    return _spans(source, found[:MAX_MARKERS], marker)


def marker_touching(source: Source, marker: str, offset: int) -> Span | None:
    """The marker that `offset` touches; None: there is none."""
    text = source.text
    near = text[max(offset - len(marker), 0) : offset + len(marker)]
    if not marker or marker not in near:
        return None
    first = lines.line_start(text, offset) if lines.is_one_line(marker) else 0  # markers depend on the ones before them
    found = _occurrences(text, marker, first, offset + len(marker))
    return next(iter(_spans(source, [at for at in found if at <= offset <= at + len(marker)][:1], marker)), None)


def _occurrences(text: str, marker: str, start: int, end: int | None) -> Iterator[int]:
    at = text.find(marker, start, end)
    while at >= 0:
        yield at
        at = text.find(marker, at + len(marker), end)


def _spans(source: Source, found: Sequence[int], marker: str) -> list[Span]:
    view = View.of(source) if found else None
    return [_span(source, view, at, at + len(marker)) for at in found]


def _span(source: Source, view: View | None, start: int, end: int) -> Span:
    if not lines.is_alone(source.text, start, end) or (view is not None and _is_inside(view, start)):
        return Span(start, end, HoleKind.MARKER, single_line=True)
    return Span(start, end, HoleKind.BODY if _is_whole_body(source, start, end) else HoleKind.BLOCK)


def _is_inside(view: View, offset: int) -> bool:
    """Whether `offset` is in a string, a comment, or the brackets of an expression."""
    return bool(string_or_comment_at(view, offset) or in_expression(open_brackets(view, offset)))


def _is_whole_body(source: Source, start: int, end: int) -> bool:
    """Whether the statement at [start, end) is alone in its block, as far as indentation tells."""
    text = source.text
    comment = table_of(source.language_id).line_comment
    indent = lines.indentation(text, start)
    below = lines.next_line_indent(text, end, comment)
    above = _indent_above(text, start, comment)
    return above is not None and lines.is_deeper(indent, above) and (below is None or lines.is_deeper(indent, below))


def _indent_above(text: str, offset: int, line_comment: str) -> str | None:
    """The indentation of the nearest line above that is neither blank nor a comment; None: there is none."""
    comment = re.escape(line_comment) if line_comment else r"(?!)"
    at = lines.line_start(text, offset)
    while at > 0:
        at = lines.line_start(text, at - 1)
        if not re.match(rf"[ \t]*({comment}|[\r\n\f]|$)", text[at:offset]):
            return lines.indentation(text, at)
    return None
