"""Reads a source's tree with its language's table, in `str` indices. Visits only nodes near an offset."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import Self

from tree_sitter import Node, TreeCursor

from lsp_server.syntax.byte_offsets import ByteOffsets
from lsp_server.syntax.languages import LanguageTable, table_of
from lsp_server.syntax.lines import end_of_text_before
from lsp_server.syntax.source import Source

_MANY_CHILDREN = 64
"""Search the children of a larger node by bisection; the broken part of a text can be one huge node."""
_MAX_COMMENTS = 500
_MAX_DEPTH = 200
_MAX_DEPTH_OF_COMMENT = 3
"""Limits that human-written code never approaches; without them, some generated files would block typing."""
_OFTEN = 4
"""In a node of many children, look for brackets only near the offset, unless it is queried this often."""
_BRACKETS = frozenset("()[]{}")


class TreePath:
    """The path from the root to the last queried node. Mutable: each thread needs its own.

    `Node.parent` searches from the root each time, which makes climbing from a deep node quadratic.
    """

    def __init__(self, root: Node) -> None:
        self._path = [root]

    def smallest_over(self, start: int, end: int) -> Node | None:
        """The smallest node over the bytes [start, end), which are not empty; None only in an empty tree."""
        self._pop(start, end)
        while self._path[-1].child_count > _MANY_CHILDREN:
            child = _child_over(self._path[-1], start, end)
            if child is None:
                break
            self._path.append(child)
        return self._path[-1].descendant_for_byte_range(start, end)

    def up_from(self, node: Node, most: int) -> list[Node]:
        """`node`, its parent, and so on up to the root: at most this many."""
        self._pop(node.start_byte, node.end_byte, node)
        while self._path[-1] != node:
            child = _child_towards(self._path[-1], node)
            if child is None:
                return list(_parents(node, most))
            self._path.append(child)
        return self._path[: -most - 1 : -1]

    def _pop(self, start: int, end: int, node: Node | None = None) -> None:
        """Goes up to a node that contains all of [start, end), or to `node`; an equally large one may be inside it."""
        path = self._path
        while len(path) > 1 and path[-1] != node:
            top = path[-1]
            if node is None and top.start_byte <= start and end <= top.end_byte:
                return
            if top.start_byte < start and end < top.end_byte:  # not so beside a missing token, which has no width
                return
            path.pop()


def _child_towards(node: Node, inner: Node) -> Node | None:
    """The child that is or contains `inner`; None: it is not below `node`."""
    if node.child_count > _MANY_CHILDREN and inner.start_byte < inner.end_byte:
        found = _child_over(node, inner.start_byte, inner.end_byte)
        if found is not None:
            return found
    return node.child_with_descendant(inner)


def _child_over(node: Node, start: int, end: int) -> Node | None:
    children = node.children
    at = bisect_right(children, start, key=lambda child: child.end_byte)
    found = children[at] if at < len(children) else None
    return found if found is not None and found.start_byte <= start and end <= found.end_byte else None


def _parents(node: Node, most: int) -> Iterator[Node]:
    above: Node | None = node
    for _ in range(most):
        if above is None:
            return
        yield above
        above = above.parent


class View:
    """Reads one source. Cheap to make, so make a new one for each request; each thread needs its own."""

    def __init__(self, text: str, table: LanguageTable, root: Node) -> None:
        self.text = text
        self.table = table
        self.root = root
        self._path = TreePath(root)
        self._brackets: dict[int, list[Node]] = {}
        self._asked = Counter[int]()
        self._bytes = ByteOffsets(text)
        self._no_code = table.comments | table.ignored
        self._tokens = table.comments | table.strings

    @classmethod
    def of(cls, source: Source) -> Self | None:
        """The view of a source; None if it has no tree."""
        if source.tree is None:
            return None
        return cls(source.text, table_of(source.language_id), source.tree.root_node)

    def start(self, node: Node) -> int:
        """Where a node starts, as a `str` index."""
        return self._bytes.to_offset(node.start_byte)

    def end(self, node: Node) -> int:
        """Where a node ends, as a `str` index."""
        return self._bytes.to_offset(node.end_byte)

    def code(self, node: Node) -> str:
        """The text of a node."""
        return self.text[self.start(node) : self.end(node)]

    def node_over(self, start: int, end: int) -> Node | None:
        """The smallest node that covers [start, end); None only in an empty tree."""
        return self.root.descendant_for_byte_range(self._bytes.to_byte(start), self._bytes.to_byte(end))

    def leaf_at(self, offset: int) -> Node | None:
        """The smallest node over the character at `offset`; None outside the text."""
        if not 0 <= offset < len(self.text):
            return None
        return self._path.smallest_over(self._bytes.to_byte(offset), self._bytes.to_byte(offset + 1))

    def ancestors(self, node: Node | None) -> list[Node]:
        """A node, its parent, and so on up to the root, or to a limit; empty for None."""
        return [] if node is None else self._path.up_from(node, _MAX_DEPTH)

    def parent(self, node: Node) -> Node | None:
        """The parent of a node; None for the root."""
        return next(iter(self.ancestors(node)[1:2]), None)

    def literal_at(self, offset: int) -> str:
        """The kind of the string or comment at `offset`; empty for code."""
        nodes = self.ancestors(self.leaf_at(offset))[:_MAX_DEPTH_OF_COMMENT]
        return next((node.type for node in nodes if node.type in self._tokens), "")

    def token_before(self, offset: int) -> Node | None:
        """The last token that ends at or before `offset`, except comments and continuations; None: none is near."""
        for _ in range(_MAX_COMMENTS):
            leaf = self.leaf_at(end_of_text_before(self.text, offset) - 1)
            around = self.ancestors(leaf)[:_MAX_DEPTH_OF_COMMENT]
            passed = next((node for node in around if node.type in self._no_code), None)
            if passed is None:
                return leaf
            offset = self.start(passed)
        return None

    def leaves(self, start: int, end: int) -> Iterator[Node]:
        """The tokens between two offsets, in order. A string or comment that starts there is one token."""
        first = self._bytes.to_byte(start)
        last = self._bytes.to_byte(end)
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
            if not _goto_next(cursor):
                return

    def brackets(self, node: Node, start: int, end: int) -> list[Node]:
        """The brackets among the children of `node` that reach into [start, end), in order, without missing ones."""
        if node.id not in self._brackets:
            self._asked[node.id] += 1
            if node.child_count > _MANY_CHILDREN and self._asked[node.id] < _OFTEN:
                return [child for child in self.children(node, start, end) if child.type in _BRACKETS]
            found = (child for child in node.children if child.type in _BRACKETS)
            self._brackets[node.id] = [child for child in found if child.start_byte < child.end_byte]
        known = self._brackets[node.id]
        if not known:
            return known
        first = self._bytes.to_byte(max(start, 0))
        last = self._bytes.to_byte(min(end, len(self.text)))
        begin = bisect_right(known, first, key=lambda child: child.end_byte)
        return known[begin : bisect_left(known, last, key=lambda child: child.start_byte)]

    def children(self, node: Node, start: int, end: int) -> Iterator[Node]:
        """The children of `node` that reach into [start, end), in order, without missing ones."""
        first = self._bytes.to_byte(max(start, 0))
        last = self._bytes.to_byte(min(end, len(self.text)))
        cursor = node.walk()
        if cursor.goto_first_child_for_byte(first) is None:
            return
        while (child := cursor.node) is not None and child.start_byte < last:
            if child.start_byte < child.end_byte:  # a missing one has no width
                yield child
            if not cursor.goto_next_sibling():
                return


def _goto_next(cursor: TreeCursor) -> bool:
    """Moves past the node under the cursor; False at the end of the tree."""
    while not cursor.goto_next_sibling():
        if not cursor.goto_parent():
            return False
    return True
