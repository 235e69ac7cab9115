"""Reads a source's tree with its language's table, in `str` indices. Visits only nodes near an offset.

Tells whether an offset is inside a string or comment, and where that ends: a fill there never reaches beyond.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from tree_sitter import Node, TreeCursor

from lsp_server.syntax.languages import LanguageTable, table_of
from lsp_server.syntax.lines import end_of_text_before
from lsp_server.syntax.parsing import ByteOffsets, Source

_MAX_SCANNED_CHILDREN = 64
"""Search the children of a larger node by bisection; the broken part of a text can be one huge node."""
_MAX_COMMENTS = 500
_MAX_DEPTH = 200
_MAX_DEPTH_OF_COMMENT = 3
"""Limits that human-written code never approaches; without them, some generated files would block typing."""
_CACHE_AFTER_QUERIES = 4
"""In a node of many children, look for brackets only near the offset, unless it is queried this often."""
_BRACKETS = frozenset("()[]{}")
_CLOSER = re.compile(r"(?:\"\"\"|'''|[\"'`])#*\Z")
"""The end of a string; `#` belongs to a raw one."""


class SyntaxView:
    """Reads one source. Cheap to make, so make a new one for each request; each thread needs its own."""

    def __init__(self, text: str, table: LanguageTable, root: Node) -> None:
        self.text = text
        self.table = table
        self.root = root
        self._path = [root]
        """From the root to the last node that was asked about: tree-sitter looks for each parent from the root."""
        self._brackets: dict[int, list[Node]] = {}
        self._asked = Counter[int]()
        self._bytes = ByteOffsets(text)
        self._no_code = table.comments | table.ignored
        self._tokens = table.comments | table.strings

    @classmethod
    def from_source(cls, source: Source) -> Self | None:
        """The view of a source; None if it has no tree."""
        if source.tree is None:
            return None
        return cls(source.text, table_of(source.language_id), source.tree.root_node)

    def start(self, node: Node) -> int:
        return self._bytes.offset_at(node.start_byte)

    def end(self, node: Node) -> int:
        return self._bytes.offset_at(node.end_byte)

    def code(self, node: Node) -> str:
        return self.text[self.start(node) : self.end(node)]

    def node_over(self, start: int, end: int) -> Node | None:
        """The smallest node that covers [start, end); None only in an empty tree."""
        return self.root.descendant_for_byte_range(self._bytes.byte_at(start), self._bytes.byte_at(end))

    def leaf_at(self, offset: int) -> Node | None:
        """The smallest node over the character at `offset`; None outside the text."""
        if not 0 <= offset < len(self.text):
            return None
        return self.node_over(offset, offset + 1)

    def ancestors(self, node: Node | None) -> list[Node]:
        """A node, its parent, and so on up to the root, or to a limit; empty for None."""
        if node is None:
            return []
        path = self._path
        while len(path) > 1 and path[-1] != node and not _is_well_inside(node, path[-1]):
            path.pop()
        while path[-1] != node:
            child = path[-1].child_with_descendant(node)
            if child is None:
                return [node, *self.ancestors(node.parent)]
            path.append(child)
        return path[: -_MAX_DEPTH - 1 : -1]

    def parent(self, node: Node) -> Node | None:
        return next(iter(self.ancestors(node)[1:2]), None)

    def literal_kind_at(self, offset: int) -> str:
        """The kind of the string or comment at `offset`; empty for code."""
        nodes = self.ancestors(self.leaf_at(offset))[:_MAX_DEPTH_OF_COMMENT]
        return next((node.type for node in nodes if node.type in self._tokens), "")

    def token_before(self, offset: int) -> Node | None:
        """The last token that ends at or before `offset`, except comments and continuations; None: none is near."""
        for _ in range(_MAX_COMMENTS):
            leaf = self.leaf_at(end_of_text_before(self.text, offset) - 1)
            ancestors = self.ancestors(leaf)[:_MAX_DEPTH_OF_COMMENT]
            passed = next((node for node in ancestors if node.type in self._no_code), None)
            if passed is None:
                return leaf
            offset = self.start(passed)
        return None

    def leaves(self, start: int, end: int) -> Iterator[Node]:
        """The tokens between two offsets, in order. A string or comment that starts there is one token."""
        first = self._bytes.byte_at(start)
        last = self._bytes.byte_at(end)
        cursor = self.root.walk()
        while True:
            node = cursor.node
            if node is None or node.start_byte >= last:
                return
            is_whole = node.type in self._tokens and node.start_byte >= first
            if not is_whole and cursor.goto_first_child_for_byte(first) is not None:
                continue
            if first < node.end_byte and node.start_byte < node.end_byte:
                yield node
            if not skip_subtree(cursor):
                return

    def brackets(self, node: Node, start: int, end: int) -> list[Node]:
        """The brackets among the children of `node` that reach into [start, end), in order, without missing ones."""
        if node.id not in self._brackets:
            self._asked[node.id] += 1
            if node.child_count > _MAX_SCANNED_CHILDREN and self._asked[node.id] < _CACHE_AFTER_QUERIES:
                return [child for child in self.children(node, start, end) if child.type in _BRACKETS]
            brackets = (child for child in node.children if child.type in _BRACKETS)
            self._brackets[node.id] = [child for child in brackets if child.start_byte < child.end_byte]
        cached = self._brackets[node.id]
        if not cached:
            return cached
        first = self._bytes.byte_at(max(start, 0))
        last = self._bytes.byte_at(min(end, len(self.text)))
        begin = bisect_right(cached, first, key=lambda child: child.end_byte)
        return cached[begin : bisect_left(cached, last, key=lambda child: child.start_byte)]

    def children(self, node: Node, start: int, end: int) -> Iterator[Node]:
        """The children of `node` that reach into [start, end), in order, without missing ones."""
        first = self._bytes.byte_at(max(start, 0))
        last = self._bytes.byte_at(min(end, len(self.text)))
        cursor = node.walk()
        if cursor.goto_first_child_for_byte(first) is None:
            return
        while (child := cursor.node) is not None and child.start_byte < last:
            if child.start_byte < child.end_byte:  # a missing one has no width
                yield child
            if not cursor.goto_next_sibling():
                return


def _is_well_inside(node: Node, outer: Node) -> bool:
    """Whether one node surely contains another: not beside a missing token, which has no width."""
    return outer.start_byte < node.start_byte and node.end_byte < outer.end_byte


def skip_subtree(cursor: TreeCursor) -> bool:
    """Moves past the node under the cursor; False at the end of the tree."""
    while not cursor.goto_next_sibling():
        if not cursor.goto_parent():
            return False
    return True


@dataclass(frozen=True)
class StringOrComment:
    """The inside of a string or comment, and its end. `unfinished`: the comment lasts to the end of another one."""

    start: int
    end: int
    closer: str = ""
    unfinished: bool = False


def string_or_comment_at(view: SyntaxView, offset: int) -> StringOrComment | None:
    """The string or comment that contains `offset`; None in code, including code embedded in a string."""
    for position in (offset - 1, offset):  # the end of a line comment is found only from within
        for node in view.ancestors(view.leaf_at(position)):
            if node.type in view.table.interpolations:
                break
            inside = None
            if node.type in view.table.comments:
                inside = _inside_comment(view, node)
            elif node.type in view.table.strings:
                inside = _inside_string(view, node, offset)
            if inside and inside.start <= offset <= inside.end:
                return inside
    return None


def _inside_comment(view: SyntaxView, node: Node) -> StringOrComment:
    start, end = view.start(node), view.end(node)
    for opener, closer in view.table.block_comments:
        if view.text.startswith(opener, start) and view.text.endswith(closer, start + len(opener), end):
            end -= len(closer)
            unfinished = view.text.find(opener, start + len(opener), end) >= 0
            return StringOrComment(start + 1, end, closer, unfinished)
    return StringOrComment(start + 1, max(start + len(view.text[start:end].rstrip("\r\n")), start + 1))


def _inside_string(view: SyntaxView, node: Node, offset: int) -> StringOrComment:
    """A string's delimiters are its first and last children, or its first and last characters if it has no children."""
    start, end = view.start(node), view.end(node)
    if node.child_count < 2:
        closer = _CLOSER.search(view.text, start + 1, end)
        end_of_text = closer.start() if closer else end - 1
        return StringOrComment(start + 1, end_of_text, view.text[end_of_text:end])
    children = node.children
    first, last = 0, len(children) - 1
    while first + 1 < last and _is_delimiter(children[first + 1]):  # as in R"x(…)x"
        first += 1
    while last - 1 > first and _is_delimiter(children[last - 1]):
        last -= 1
    if children[-1].start_byte < children[-1].end_byte:
        end = view.start(children[last])
    code = (child for child in view.children(node, offset, end) if child.type in view.table.interpolations)
    next_code = next((pos for pos in map(view.start, code) if pos >= offset), end)  # embedded code stays
    return StringOrComment(view.end(children[first]), next_code, view.text[end : view.end(node)])


def _is_delimiter(node: Node) -> bool:
    return not node.is_named or "delimiter" in node.type
