"""Finds where the syntax requires a block, and which brackets are open at an offset, even in unfinished code."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from inference.ending import unpaired
from lsp_server.holes.functions import is_documentation
from lsp_server.syntax.languages import CLOSERS
from lsp_server.syntax.lines import indent_step, indentation, is_deeper, is_one_line, line_start, next_code_line_indent
from lsp_server.syntax.view import SyntaxView

_MAX_LINE_CHARACTERS = 1000
"""No header is longer; a line of generated code may have millions of characters."""


@dataclass(frozen=True)
class BlockStart:
    """The start of a block, existing or missing. It is indented by `indent`, its header by `outer_indent`."""

    outer_indent: str
    indent: str
    is_missing: bool  # there is no block yet
    header_end: int  # where the header, or the documentation string after it, ends
    follows_header: bool  # and not after a documentation string


def possible_block_at(view: SyntaxView, offset: int) -> BlockStart | None:
    """The block that would start at `offset`; None if the code before it is neither a header nor documentation."""
    token = view.token_before(offset)
    if token is None:
        return None
    header = header_ended_by(view, token, offset)
    owner = header or _documented_by(view, token)
    if owner is None:
        return None
    outer_indent = indentation(view.text, view.start(owner))
    below = next_code_line_indent(view.text, offset, view.table.line_comment)
    if header is None:
        indent = indentation(view.text, view.start(_statement_of(view, token)))
    else:
        indent = outer_indent + indent_step(view.text, offset, view.table.indent)
    return BlockStart(outer_indent, indent, not is_deeper(below, outer_indent), view.end(token), header is not None)


def header_ended_by(view: SyntaxView, token: Node, offset: int) -> Node | None:
    """The node whose first line starts the header that `token` ends, by the tree or else by the text; or None."""
    owner, table = view.parent(token), view.table
    if token.type in table.openers and owner is not None and not owner.is_error:
        if owner.type in table.headers | table.data and owner.children[0].id != token.id:
            return owner
        if owner.type not in table.headers | table.data | table.blocks:
            return None
        above = view.parent(owner)
        return owner if above is None or above.type in table.blocks or owner.type in table.data else above
    return token if _looks_like_header(view, token, offset) else None


def bracket_opens_block(view: SyntaxView, bracket: Node, owner: Node) -> bool:
    """Whether an opening bracket, a child of `owner`, starts a block of statements, and not an expression."""
    table = view.table
    if bracket.type not in table.openers or owner.type in table.data:
        return False
    if owner.is_error:
        return _looks_like_header(view, bracket, view.end(bracket))
    return owner.type in table.blocks or owner.type in table.headers


def _looks_like_header(view: SyntaxView, token: Node, offset: int) -> bool:
    """Whether the line up to `token` opens a block. Between it and `offset`, only a line end matters."""
    if not view.table.opening:
        return False
    end = view.end(token)
    line = view.text[line_start(view.text, view.start(token)) : end]
    line = line[-_MAX_LINE_CHARACTERS:] + ("" if is_one_line(view.text, end, max(offset, end)) else "\n")
    return re.search(view.table.opening, line) is not None


def _documented_by(view: SyntaxView, token: Node) -> Node | None:
    """The header whose block so far is only a documentation string, which `token` ends."""
    statement = _statement_of(view, token)
    above = view.ancestors(statement)[1:3]
    if statement.end_byte != token.end_byte or len(above) < 2:
        return None
    block, header = above
    is_first = block.named_child_count > 0 and block.named_children[0].id == statement.id
    return header if is_first and is_documentation(view, header, statement) else None


def _statement_of(view: SyntaxView, token: Node) -> Node:
    """The expression statement that contains `token`; otherwise `token` itself."""
    return next((node for node in view.ancestors(token) if node.type in view.table.statements), token)


_WINDOW_CHARACTERS = 4000
"""How far on each side to search one node's children for brackets; an error node can be a whole file."""


@dataclass(frozen=True)
class OpenBracket:
    """A bracket that is open at some offset. `is_closed`: its partner already exists after the offset."""

    kind: str
    start: int
    is_closed: bool
    is_block: bool = False  # it holds statements, not an expression


def open_brackets(view: SyntaxView, offset: int) -> list[OpenBracket]:
    """The brackets open at `offset`, outermost first. An interpolation's braces count, quotes do not."""
    brackets: list[OpenBracket] = []
    for node in view.ancestors(view.token_before(offset)):
        if node.type in view.table.blocks:
            brackets += _open_in_broken_siblings(view, node, offset)
        brackets += reversed(_open_among_children(view, node, offset))
    return brackets[::-1]


def open_brackets_in_block(brackets: Sequence[OpenBracket]) -> Sequence[OpenBracket]:
    """The open brackets of the expression: all after the last one that holds statements."""
    blocks = [index for index, bracket in enumerate(brackets) if bracket.is_block]
    return brackets[blocks[-1] + 1 :] if blocks else brackets


def _open_in_broken_siblings(view: SyntaxView, block: Node, offset: int) -> Iterator[OpenBracket]:
    """The brackets that error nodes before `offset` on its line leave open: the start of an unfinished statement."""
    for child in view.children(block, line_start(view.text, offset), offset):
        if child.is_error and view.end(child) < offset:
            yield from reversed(_open_among_children(view, child, offset))


def _open_among_children(view: SyntaxView, node: Node, offset: int) -> list[OpenBracket]:
    """The brackets among a node's children that are open at `offset`, outermost first."""
    near = view.brackets(node, offset - _WINDOW_CHARACTERS, offset + _WINDOW_CHARACTERS)
    preceding = [child for child in near if view.end(child) <= offset]
    _, stack = unpaired((child, child.type) for child in preceding)
    closers, _ = unpaired((child, child.type) for child in near[len(preceding) :])
    return [
        OpenBracket(
            kind,
            view.start(child),
            index < len(closers) and CLOSERS[kind] == closers[index][1],
            bracket_opens_block(view, child, node),
        )
        for index, (child, kind) in zip(range(len(stack) - 1, -1, -1), stack, strict=True)
    ]
