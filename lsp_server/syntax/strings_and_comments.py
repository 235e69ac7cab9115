"""Tells whether an offset is inside a string or comment, and where that ends: a fill there never reaches beyond."""

from dataclasses import dataclass

from tree_sitter import Node

from lsp_server.syntax.view import View


@dataclass(frozen=True)
class StringOrComment:
    """The inside of a string or comment, and its end. `unfinished`: the comment lasts to the end of another one."""

    start: int
    end: int
    closer: str = ""
    unfinished: bool = False


def string_or_comment_at(view: View, offset: int) -> StringOrComment | None:
    """The string or comment that contains `offset`; None in code, including code embedded in a string."""
    for at in (offset - 1, offset):  # the end of a line comment is found only from within
        for node in view.ancestors(view.leaf_at(at)):
            if node.type in view.table.interpolations:
                break
            inside = _inside(view, node, offset)
            if inside and inside.start <= offset <= inside.end:
                return inside
    return None


def _inside(view: View, node: Node, offset: int) -> StringOrComment | None:
    if node.type in view.table.comments:
        return _inside_comment(view, node)
    if node.type in view.table.strings:
        return _inside_string(view, node, offset)
    return None


def _inside_comment(view: View, node: Node) -> StringOrComment:
    start, end = view.start(node), view.end(node)
    for opener, closer in view.table.block_comments:
        if view.text.startswith(opener, start) and view.text.endswith(closer, start + len(opener), end):
            end -= len(closer)
            unfinished = view.text.find(opener, start + len(opener), end) >= 0
            return StringOrComment(start + 1, end, closer, unfinished)
    return StringOrComment(start + 1, max(start + len(view.text[start:end].rstrip("\r\n")), start + 1))


def _inside_string(view: View, node: Node, offset: int) -> StringOrComment:
    """A string's delimiters are its first and last children, or its first and last characters if it has no children."""
    start, end = view.start(node), view.end(node)
    if node.child_count < 2:
        return StringOrComment(start + 1, end - 1, view.text[end - 1 : end])
    children = node.children
    first, last = 0, len(children) - 1
    while first + 1 < last and _is_delimiter(children[first + 1]):  # as in R"x(…)x"
        first += 1
    while last - 1 > first and _is_delimiter(children[last - 1]):
        last -= 1
    if children[-1].start_byte < children[-1].end_byte:
        end = view.start(children[last])
    code = (child for child in view.children(node, offset, end) if child.type in view.table.interpolations)
    next_code = next((at for at in map(view.start, code) if at >= offset), end)  # embedded code stays
    return StringOrComment(view.end(children[first]), next_code, view.text[end : view.end(node)])


def _is_delimiter(node: Node) -> bool:
    return not node.is_named or "delimiter" in node.type
