"""The hole at a cursor where there is no grammar: words, brackets of the line, and indentation decide."""

from inference.messages import HoleKind
from lsp_server.carve.segments import Span
from lsp_server.syntax.languages import CLOSERS, LanguageTable
from lsp_server.syntax.lines import (
    indent_step,
    indentation,
    is_blank,
    is_deeper,
    is_word,
    line_end,
    line_start,
    next_line_indent,
    previous_line,
    word_before,
)

_HEADER_ENDS = ("{", ":")


def plain_hole_at(text: str, table: LanguageTable, offset: int) -> Span | None:
    """The hole at `offset`; None in the middle of a word, and in front of code that does not close a bracket."""
    word = word_before(text, offset, table.word_characters)
    left, right = text[line_start(text, offset) : offset], text[offset : line_end(text, offset)]
    if is_blank(left) and is_blank(right):
        return _on_blank_line(text, table, offset, left)
    if is_blank(right):
        return Span(offset - len(word), offset, HoleKind.LINE, word, single_line=True)
    if is_word(right[0], table.word_characters) or is_blank(left):
        return None
    kind = HoleKind.ARGUMENTS if CLOSERS.get(left[-1:]) == right[0] else HoleKind.EXPRESSION
    return Span(offset - len(word), offset, kind, word, single_line=True)


def _on_blank_line(text: str, table: LanguageTable, offset: int, left: str) -> Span:
    """A block where the line above opens one that nothing below fills, or where the user has indented deeper."""
    above = previous_line(text, offset)
    if above is None:
        return Span(offset, offset, HoleKind.LINE, single_line=True)
    outer = indentation(above, 0)
    below = next_line_indent(text, offset, table.line_comment)
    if is_deeper(below, outer) or not (above.rstrip().endswith(_HEADER_ENDS) or is_deeper(left, outer)):
        return Span(offset, offset, HoleKind.LINE, single_line=True)
    if is_deeper(left, outer):
        return Span(offset, offset, HoleKind.BODY)
    indent = outer + indent_step(text, offset, table.indent)
    return Span(offset, offset, HoleKind.BODY, indent[len(left) :] if indent.startswith(left) else "")
