"""Walks from the root of a tree to a node and back up, remembering the last path.

`Node.parent` searches from the root each time, which makes climbing from a deep node quadratic.
"""

from bisect import bisect_right
from collections.abc import Iterator

from tree_sitter import Node

_MANY_CHILDREN = 64
"""Search the children of a larger node by bisection; the broken part of a text can be one huge node."""


class TreePath:
    """The path from the root to the last queried node. Mutable: each thread needs its own."""

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
