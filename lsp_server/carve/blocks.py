"""Where the syntax asks for a block that is not there: behind a header, or behind nothing but its documentation."""

from dataclasses import dataclass

from tree_sitter import Node

from lsp_server.carve.lines import indent_step, indentation, is_deeper, line_start, next_line_indent
from lsp_server.carve.view import View, ancestors


@dataclass(frozen=True)
class Place:
    """The place behind a header. `outer` and `indent` indent header and block; `empty`: the block is missing."""

    outer: str
    indent: str
    empty: bool
    end: int  # where the header, or the documentation string, ends
    is_header: bool


def place_at(view: View, offset: int) -> Place | None:
    """The block that would start at `offset`; None when the code before it is neither header nor documentation."""
    token = view.token_before(offset)
    if token is None:
        return None
    header = _header_ended_by(view, token)
    owner = header or _documented_by(view, token)
    if owner is None:
        return None
    outer = indentation(view.text, view.start(owner))
    below = next_line_indent(view.text, offset, view.table.line_comment)
    if header is None:
        indent = indentation(view.text, view.start(_statement_of(view, token)))
    else:
        indent = outer + indent_step(view.text, offset, view.table.indent)
    return Place(outer, indent, not is_deeper(below, outer), view.end(token), header is not None)


def _header_ended_by(view: View, token: Node) -> Node | None:
    """The node whose header `token` ends: its own node, or where that is broken, the first word of its line."""
    owner = token.parent
    if token.type != view.table.block_opener or owner is None:
        return None
    if owner.type in view.table.headers:
        return owner
    if not owner.is_error:
        return None
    start = line_start(view.text, view.start(token))
    first = next(view.leaves(start, view.end(token)), None)
    return first if first is not None and first.type in view.table.header_words else None


def _documented_by(view: View, token: Node) -> Node | None:
    """The header whose block has only a documentation string so far, which `token` ends."""
    statement = _statement_of(view, token)
    if statement.type not in view.table.statements or statement.end_byte != token.end_byte:
        return None
    block = statement.parent
    if block is None or block.parent is None or block.parent.type not in view.table.documented:
        return None
    is_string = statement.named_child_count == 1 and statement.named_children[0].type in view.table.strings
    is_first = block.named_child_count > 0 and block.named_children[0].id == statement.id
    return block.parent if is_string and is_first else None


def _statement_of(view: View, token: Node) -> Node:
    """The mere expression that `token` is part of, as a statement; `token` itself where it is part of none."""
    return next((node for node in ancestors(token) if node.type in view.table.statements), token)
