"""Finds the brackets open at an offset, by the tree, even in the error nodes of unfinished code."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from lsp_server.carve.blocks import opens_block
from lsp_server.syntax.languages import CLOSERS
from lsp_server.syntax.lines import line_start
from lsp_server.syntax.scanning import closed_before, left_open
from lsp_server.syntax.view import View

_WINDOW_CHARACTERS = 4000
"""How far on each side to search one node's children for brackets; an error node can be a whole file."""


@dataclass(frozen=True)
class OpenBracket:
    """A bracket that is open at some offset. `closed`: its partner already exists after the offset."""

    kind: str
    start: int
    closed: bool
    owner: str  # the kind of the node that it belongs to
    is_block: bool = False  # it holds statements, not an expression


def open_brackets(view: View, offset: int) -> list[OpenBracket]:
    """The brackets open at `offset`, outermost first. An interpolation's braces count, quotes do not."""
    found: list[OpenBracket] = []
    for node in view.ancestors(view.token_before(offset)):
        if node.type in view.table.blocks:
            found += _in_broken_siblings(view, node, offset)
        found += reversed(_among(view, node, offset))
    return found[::-1]


def in_expression(brackets: Sequence[OpenBracket]) -> Sequence[OpenBracket]:
    """The open brackets of the expression: all after the last one that holds statements."""
    blocks = [index for index, bracket in enumerate(brackets) if bracket.is_block]
    return brackets[blocks[-1] + 1 :] if blocks else brackets


def _in_broken_siblings(view: View, block: Node, offset: int) -> Iterator[OpenBracket]:
    """The brackets that error nodes before `offset` on its line leave open: the start of an unfinished statement."""
    for child in view.children(block, line_start(view.text, offset), offset):
        if child.is_error and view.end(child) < offset:
            yield from reversed(_among(view, child, offset))


def _among(view: View, node: Node, offset: int) -> list[OpenBracket]:
    """The brackets among a node's children that are open at `offset`, outermost first."""
    near = view.brackets(node, offset - _WINDOW_CHARACTERS, offset + _WINDOW_CHARACTERS)
    before = [child for child in near if view.end(child) <= offset]
    stack = [child for child, _ in left_open((child, child.type) for child in before)]
    closers = closed_before(child.type for child in near[len(before) :])
    return [
        OpenBracket(
            child.type,
            view.start(child),
            index < len(closers) and CLOSERS[child.type] == closers[index],
            node.type,
            opens_block(view, child, node),
        )
        for index, child in zip(range(len(stack) - 1, -1, -1), stack, strict=True)
    ]
