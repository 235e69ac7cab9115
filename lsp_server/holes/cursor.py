"""Chooses the hole at a cursor by syntax. The typed part of a word belongs to it, and is its `starts_with`."""

import re
from collections.abc import Sequence

from inference.ending import QUOTES, open_quote
from inference.messages import HoleKind
from lsp_server.holes.blocks import BlockStart, OpenBracket, open_brackets, open_brackets_in_block, possible_block_at
from lsp_server.holes.markers import DEFAULT_MARKER, marker_touching
from lsp_server.holes.segments import HoleSpan
from lsp_server.syntax import lines
from lsp_server.syntax.languages import CLOSERS, LanguageTable, table_of
from lsp_server.syntax.parsing import Source
from lsp_server.syntax.view import StringOrComment, SyntaxView, string_or_comment_at

_HEADER = re.compile(
    r"[{:]$|^\s*(?:for|while|until|if|elif|elseif|unless)\b.*\b(?:do|then)$|^\s*(?:else|do|begin|repeat|loop)$"
    r"|\bdo\s*\|[^|]*\|$|^\s*(?:(?:local\s+)?function|def|class|module)\b[^{;=]*$"
)
"""A line that opens a block, where there is no tree."""
_BLOCK_END = re.compile(
    r"\s*(?:[)\]}]|(?:end|done|fi|esac|else|elif|elsif|elseif|except|finally|rescue|ensure|until)\b)"
)
"""The start of a line that ends a block; the lines above it are deeper."""


def hole_at_cursor(source: Source, offset: int, marker: str = DEFAULT_MARKER) -> HoleSpan | None:
    """The hole at a cursor, preferably a marker; None where a suggestion would be a nuisance, as inside a word.

    Without a tree, indentation shows what a blank line lacks.
    """
    text, table, view = source.text, table_of(source.language_id), SyntaxView.from_source(source)
    if text.startswith("\r\n", offset - 1) and offset > 0:
        offset -= 1  # it was between the two characters of a line end
    if touching := marker_touching(source, marker, offset):
        return touching
    word = lines.word_before(text, offset, table.word_characters)
    if word and lines.is_word_char(text[offset : offset + 1], table.word_characters):
        return None
    line_prefix = text[lines.line_start(text, offset) : offset]
    line_suffix = text[offset : lines.line_end(text, offset)]
    literal = string_or_comment_at(view, offset) if view else None
    is_in_string = not literal and open_quote(line_prefix) in ("'", '"')  # without an end, so in no tree
    brackets = [] if not view or is_in_string or lines.is_blank(line_suffix) else open_brackets(view, offset)
    if end := _end_of_auto_closed(brackets, literal, line_suffix, lines.line_start(text, offset)):
        return HoleSpan(offset - len(word), offset + end, HoleKind.LINE, word, single_line=True)
    if literal:
        end = min(literal.end, offset + len(line_suffix))
        is_kept = bool(word) or lines.is_blank(text[offset:end])  # after an unfinished word, replaces nothing
        return HoleSpan(offset - len(word), offset if is_kept else end, HoleKind.LINE, word, single_line=True)
    if lines.is_blank(line_prefix) and lines.is_blank(line_suffix):
        block = possible_block_at(view, offset) if view else _block_without_tree(text, table, offset)
        return _blank_line_hole(text, table, block, offset)
    if lines.is_blank(line_suffix):
        return _line_end_hole(view, offset, word) if view else _insertion(offset, HoleKind.LINE, word)
    if view and _is_only_comment(view, offset, offset + len(line_suffix)):
        return None if _ends_header(view, offset) else _insertion(offset, HoleKind.LINE, word)
    if view and not word and open_brackets_in_block(brackets):  # the rest of the argument
        return HoleSpan(offset, _operand_end(view, offset), HoleKind.EXPRESSION, single_line=True)
    if lines.is_blank(line_prefix):
        return None
    if view and not word and brackets and _closes_at(view, brackets[-1], offset):
        return _empty_block_hole(view, offset)
    is_before_word = lines.is_word_char(line_suffix[0], table.word_characters)
    return None if is_before_word else _insertion(offset, HoleKind.EXPRESSION, word)


def _insertion(offset: int, kind: HoleKind, word: str = "") -> HoleSpan:
    """A hole that inserts at `offset`. White space to the right stays: editors show no suggestion that replaces it."""
    return HoleSpan(offset - len(word), offset, kind, word, single_line=True)


def _blank_line_hole(text: str, table: LanguageTable, block: BlockStart | None, offset: int) -> HoleSpan:
    line_prefix = text[lines.line_start(text, offset) : offset]
    is_inside = block is not None and lines.is_deeper(
        line_prefix, block.outer_indent
    )  # then keep the user's own indentation
    if block and block.is_missing and (block.follows_header or is_inside):
        return HoleSpan(offset, offset, HoleKind.BODY, "" if is_inside else _missing_indent(block.indent, line_prefix))
    indent = _missing_indent(_indent_between(text, table, offset, line_prefix), line_prefix)
    return HoleSpan(offset, offset, HoleKind.LINE, indent, single_line=True)


def _missing_indent(indent: str, typed: str) -> str:
    """The missing part of an indentation; empty if the user has begun a deeper or a different one."""
    return indent[len(typed) :] if indent.startswith(typed) else ""


def _block_without_tree(text: str, table: LanguageTable, offset: int) -> BlockStart | None:
    """The block that would start on a blank line of a text without a tree."""
    above = lines.nonblank_line_above(text, offset)
    if above is None:
        return None
    outer = lines.indentation(above, 0)
    indent = outer + lines.indent_step(text, offset, table.indent)
    below = lines.next_code_line_indent(text, offset, table.line_comment)
    return BlockStart(outer, indent, not lines.is_deeper(below, outer), offset, _HEADER.search(above) is not None)


def _indent_between(text: str, table: LanguageTable, offset: int, typed: str) -> str:
    """The indentation of a blank line: that of the line below, unless that is deeper than the line above. If the line
    below ends a block or closes a bracket, that of the block's or bracket's contents, unless the user has `typed` a
    deeper one.
    """
    below = lines.next_code_line_indent(text, offset, table.line_comment)
    above = lines.nonblank_line_above(text, offset)
    if below is None or above is None or lines.is_deeper(below, outer := lines.indentation(above, 0)):
        return ""
    if lines.is_deeper(typed, below) or not _BLOCK_END.match(text, lines.line_end(text, offset)):
        return below
    return outer + (lines.indent_step(text, offset, table.indent) if above[-1:] in CLOSERS else "")


def _line_end_hole(view: SyntaxView, offset: int, word: str) -> HoleSpan | None:
    block = None if word else possible_block_at(view, offset)
    if block and block.header_end == offset:
        if block.is_missing:
            return HoleSpan(offset, offset, HoleKind.BODY, lines.eol_at(view.text, offset) + block.indent)
        if block.follows_header:
            return None
    return _insertion(offset, HoleKind.LINE, word)


def _end_of_auto_closed(
    brackets: Sequence[OpenBracket], literal: StringOrComment | None, line_suffix: str, line_start: int
) -> int:
    """The length of `line_suffix` if it only closes a string and brackets opened on the line, as an editor does while
    one types: the statement goes on after them. 0 if anything else follows the cursor.
    """
    suffix = line_suffix.rstrip()
    opened = [bracket for bracket in reversed(brackets) if bracket.start >= line_start and not bracket.is_block]
    closers = (literal.closer if literal else "") + "".join(CLOSERS[bracket.kind] for bracket in opened)
    is_code = literal is None or (literal.closer in QUOTES and literal.start > line_start)
    return len(suffix) if is_code and closers.startswith(suffix) else 0


def _is_only_comment(view: SyntaxView, offset: int, end: int) -> bool:
    """Whether only a comment follows on the line."""
    first = next(view.leaves(offset, end), None)
    return first is not None and first.type in view.table.comments | view.table.ignored


def _ends_header(view: SyntaxView, offset: int) -> bool:
    block = possible_block_at(view, offset)
    return block is not None and block.follows_header and block.header_end >= lines.line_start(view.text, offset)


def _closes_at(view: SyntaxView, bracket: OpenBracket, offset: int) -> bool:
    """Whether only white space separates a bracket, `offset` and the bracket's partner."""
    line_suffix = view.text[offset : lines.line_end(view.text, offset)].lstrip()
    return lines.is_blank(view.text[bracket.start + 1 : offset]) and line_suffix.startswith(CLOSERS[bracket.kind])


def _empty_block_hole(view: SyntaxView, offset: int) -> HoleSpan:
    """Between the brackets of a block on one line: separate lines, unless the user has put spaces there."""
    block = possible_block_at(view, offset)
    if block is None or block.header_end != offset:
        return HoleSpan(offset, offset, HoleKind.BODY, single_line=True)
    return HoleSpan(offset, offset, HoleKind.BODY, lines.eol_at(view.text, offset) + block.indent)


def _operand_end(view: SyntaxView, offset: int) -> int:
    """The end of the operand that starts at `offset`; `offset` itself if an operator or keyword follows."""
    end = offset
    depth = 0
    last = lines.line_end(view.text, offset)
    for leaf in view.leaves(offset, last):
        starts_operand = leaf.is_named or leaf.type in CLOSERS
        if leaf.type in view.table.comments or view.end(leaf) > last or (end == offset and not starts_operand):
            return end
        depth += (leaf.type in CLOSERS) - (leaf.type in CLOSERS.values())
        if depth < 0 or (depth == 0 and leaf.type in view.table.operand_ends):
            return end
        end = view.end(leaf)
    return end
