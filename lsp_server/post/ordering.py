"""The order candidates are shown in: the worker's, except that those which newly break the parse come last."""

from collections.abc import Sequence

from tree_sitter import Tree

from lsp_server.carve.parsing import edit_tree, parse
from lsp_server.carve.segments import splice
from lsp_server.carve.source import Source, Span

_MAX_COUNTED = 100
"""Counting stops here: a text as broken as that tells nothing about a fill."""


def order(source: Source, spans: Sequence[Span], candidates: Sequence[tuple[str, ...]]) -> list[int]:
    """The indices of `candidates`, in the order given but for those that leave more errors in the tree than there were.

    A text with holes is often broken by the holes alone, so a fill is also held against a mere name in its place.
    Without a tree the order stays as it is. Raises ValueError where `splice` does.
    """
    if source.tree is None or not candidates:
        return list(range(len(candidates)))
    names = tuple(span.starts_with + "_" for span in spans)
    allowed = min(_errors(source.tree), _errors_with(source, source.tree, spans, names))
    breaks = [_errors_with(source, source.tree, spans, fills) > allowed for fills in candidates]
    return sorted(range(len(candidates)), key=breaks.__getitem__)


def _errors_with(source: Source, tree: Tree, spans: Sequence[Span], fills: Sequence[str]) -> int:
    text = splice(source.text, spans, fills)
    edited = tree.copy()
    for span, fill in reversed(list(zip(spans, fills, strict=True))):  # from the end, so that offsets stay true
        edit_tree(edited, source.text, span.start, span.end, fill)
    filled = parse(source.language_id, text, edited)
    return 0 if filled is None else _errors(filled)


def _errors(tree: Tree) -> int:
    """How many nodes are errors or missing; only the branches that hold one are visited."""
    found, cursor = 0, tree.walk()
    while found < _MAX_COUNTED:
        node = cursor.node
        found += node is not None and (node.is_error or node.is_missing)
        if node is not None and node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return found
    return found
