"""Is an offset inside a comment or a string, and where does that end? A fill there never reaches beyond the end."""

from dataclasses import dataclass

from tree_sitter import Node

from lsp_server.syntax.view import View, ancestors


@dataclass(frozen=True)
class Literal:
    """The inside of a comment or string, its delimiters not included, as `str` indices. `closer`: its end delimiter.

    `unfinished`: a comment that swallows the start of another one has lost its own end, and lasts up to the other's.
    """

    start: int
    end: int
    closer: str = ""
    unfinished: bool = False


def literal_at(view: View, offset: int) -> Literal | None:
    """The comment or string that `offset` stands in; None in code, and in code embedded in a string."""
    for at in (offset - 1, offset):  # at its end, a comment up to the line end is only found from within
        for node in ancestors(view.leaf_at(at)):
            if node.type in view.table.interpolations:
                break
            inside = _inside(view, node, offset)
            if inside and inside.start <= offset <= inside.end:
                return inside
    return None


def _inside(view: View, node: Node, offset: int) -> Literal | None:
    if node.type in view.table.comments:
        return _inside_comment(view, node)
    if node.type in view.table.strings:
        return _inside_string(view, node, offset)
    return None


def _inside_comment(view: View, node: Node) -> Literal:
    start, end = view.start(node), view.end(node)
    for opener, closer in view.table.block_comments:
        if view.text.startswith(opener, start) and view.text.endswith(closer, start + len(opener), end):
            end -= len(closer)
            return Literal(start + 1, end, closer, unfinished=view.text.find(opener, start + len(opener), end) >= 0)
    return Literal(start + 1, max(start + len(view.text[start:end].rstrip("\r\n")), start + 1))


def _inside_string(view: View, node: Node, offset: int) -> Literal:
    """A string's delimiters are its first and last child, or its first and last character if it has no children."""
    start, end = view.start(node), view.end(node)
    if node.child_count < 2:
        return Literal(start + 1, end - 1, view.text[end - 1 : end])
    children = node.children
    first, last = 0, len(children) - 1
    while first + 1 < last and _is_delimiter(children[first + 1]):  # as in R"x(…)x"
        first += 1
    while last - 1 > first and _is_delimiter(children[last - 1]):
        last -= 1
    if children[-1].start_byte < children[-1].end_byte:
        end = view.start(children[last])
    code = (child for child in view.children(node, offset, end) if child.type in view.table.interpolations)
    next_code = next((at for at in map(view.start, code) if at >= offset), end)  # what is embedded stays as it is
    return Literal(view.end(children[first]), next_code, view.text[end : view.end(node)])


def _is_delimiter(node: Node) -> bool:
    return not node.is_named or "delimiter" in node.type
