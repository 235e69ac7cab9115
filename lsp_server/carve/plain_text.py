"""Carves text in languages without a grammar, by words, brackets on the line and indentation: it guesses."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from inference.messages import HoleKind
from lsp_server.carve.segments import Span
from lsp_server.syntax import lines
from lsp_server.syntax.languages import CLOSERS, LanguageTable

_HEADER_ENDS = ("{", ":")
_HEADER = re.compile(
    r"(?!\s*(?:\}?\s*else|if|elif|for|foreach|while|until|unless|switch|match|case|when|with|catch|try|return|do)\b)"
    r".*(?:\b(?:def|defp|fn|fun|func|function|sub|proc|procedure|method)\b|[\w>\]]\s*\([^;]*\)[^;=]*\{\s*$)"
)
_CLOSER = re.compile(r"[ \t]*(?:\}|end\b)")
_MAX_LINES = 3000
_MAX_HEADER_CHARACTERS = 500


@dataclass(frozen=True)
class PlainFunction:
    """A function from the first character of its header to the end of the line that closes it."""

    start: int
    body_start: int  # the end of the header's line
    body_end: int  # the end of the last line that is indented deeper than the header
    end: int


def plain_hole_at(text: str, table: LanguageTable, offset: int) -> Span | None:
    """The hole at a cursor; None in the middle of a word, and before code that does not close a bracket."""
    word = lines.word_before(text, offset, table.word_characters)
    left = text[lines.line_start(text, offset) : offset]
    right = text[offset : lines.line_end(text, offset)]
    if lines.is_blank(left) and lines.is_blank(right):
        return _on_blank_line(text, table, offset, left)
    if lines.is_blank(right):
        return Span(offset - len(word), offset, HoleKind.LINE, word, single_line=True)
    if lines.is_word(right[0], table.word_characters) or lines.is_blank(left):
        return None
    kind = HoleKind.ARGUMENTS if CLOSERS.get(left[-1:]) == right[0] else HoleKind.EXPRESSION
    return Span(offset - len(word), offset, kind, word, single_line=True)


def _on_blank_line(text: str, table: LanguageTable, offset: int, left: str) -> Span:
    """A block if the line above opens one and it has no lines yet, or if the user has indented deeper."""
    above = lines.previous_line(text, offset)
    if above is None:
        return Span(offset, offset, HoleKind.LINE, single_line=True)
    outer = lines.indentation(above, 0)
    below = lines.next_line_indent(text, offset, table.line_comment)
    if lines.is_deeper(below, outer) or not (above.rstrip().endswith(_HEADER_ENDS) or lines.is_deeper(left, outer)):
        return Span(offset, offset, HoleKind.LINE, single_line=True)
    if lines.is_deeper(left, outer):
        return Span(offset, offset, HoleKind.BODY)
    indent = outer + lines.indent_step(text, offset, table.indent)
    return Span(offset, offset, HoleKind.BODY, indent[len(left) :] if indent.startswith(left) else "")


def plain_function_around(text: str, start: int, end: int) -> PlainFunction | None:
    """The innermost function that contains [start, end], as far as one can tell without a grammar."""
    for header in _lines_around(text, start):
        line = text[header : lines.line_end(text, header)]
        if len(line) <= _MAX_HEADER_CHARACTERS and _HEADER.match(line):
            found = _function(text, header)
            if found.end > found.body_start and found.start <= start and end <= found.end:
                return found
    return None


def plain_body_around(text: str, table: LanguageTable, offset: int) -> Span | None:
    """The body of the innermost function at `offset`, existing or missing, as one hole."""
    function = plain_function_around(text, offset, offset)
    if function is None:
        return None
    inside = text[function.body_start : function.body_end]
    if lines.is_blank(inside):
        indent = lines.indentation(text, function.start) + lines.indent_step(text, function.start, table.indent)
        at = function.body_start
        return Span(at, at, HoleKind.BODY, lines.eol_at(text, at) + indent)
    first = function.body_start + len(inside) - len(inside.lstrip())
    return Span(first, lines.end_of_text_before(text, function.body_end), HoleKind.BODY)


def _lines_around(text: str, offset: int) -> Iterator[int]:
    """The start of the line at `offset`, then of lines above it, each less indented than the one before."""
    at = lines.line_start(text, offset)
    line = text[at : lines.line_end(text, offset)]
    indent = text[at:offset] if lines.is_blank(line) else lines.indentation(text, at)
    if not lines.is_blank(line):
        yield at
        if _CLOSER.match(line):
            indent += " "  # its header is indented like the closer itself
    for _ in range(_MAX_LINES):
        if at == 0:
            return
        at = lines.line_start(text, at - 1)
        above = lines.indentation(text, at)
        if lines.is_deeper(indent, above) and not lines.is_blank(text[at : lines.line_end(text, at)]):
            indent = above
            yield at


def _function(text: str, header: int) -> PlainFunction:
    outer = lines.indentation(text, header)
    body_start = body_end = lines.line_end(text, header)
    at = _next_line(text, body_start)
    for _ in range(_MAX_LINES):
        end = lines.line_end(text, at)
        if at > len(text) or not (lines.is_blank(text[at:end]) or lines.is_deeper(lines.indentation(text, at), outer)):
            break
        if not lines.is_blank(text[at:end]):
            body_end = end
        at = _next_line(text, end)
    closes = at <= len(text) and _CLOSER.match(text, at) and lines.indentation(text, at) == outer
    return PlainFunction(header + len(outer), body_start, body_end, lines.line_end(text, at) if closes else body_end)


def _next_line(text: str, end: int) -> int:
    """The start of the line after the line end at `end`; past the text if there is none."""
    return end + (2 if text.startswith("\r\n", end) else 1)
