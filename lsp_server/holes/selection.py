"""Turns a range from a selection or a diagnostic into one hole: the range itself, or a statement."""

from itertools import islice

from tree_sitter import Node

from inference.messages import HoleKind
from lsp_server.holes.blocks import open_brackets, open_brackets_in_block
from lsp_server.holes.functions import body_of, functions_around
from lsp_server.holes.segments import HoleSpan
from lsp_server.syntax.lines import end_of_text_before, is_alone, is_blank, is_one_line, line_end, line_start
from lsp_server.syntax.parsing import Source
from lsp_server.syntax.view import SyntaxView, string_or_comment_at

_MAX_DEPTH = 50
_HUGE_CHILDREN = 5000
"""Searching this many broken parts for brackets takes too long; then the line is enough."""
_MAX_CHILDREN = 50
"""A block begins soon after the end of its header."""


def hole_in_selection(source: Source, start: int, end: int) -> HoleSpan | None:
    """[start, end) without white space at its edges, as one hole to rework; None if nothing is left."""
    text = source.text
    start, end = trim_range(text, start, end)
    if start == end:
        return None
    view = SyntaxView.from_source(source)
    single_line = is_one_line(text, start, end)
    if view is not None and _is_body(view, start, end):
        return HoleSpan(start, end, HoleKind.BODY, single_line=single_line)
    kind = _hole_kind(view, start, is_alone(text, start, end), single_line)
    return HoleSpan(start, end, kind, single_line=single_line)


def statement_around(source: Source, start: int, end: int) -> HoleSpan | None:
    """The innermost statement over [start, end], only the header of a compound one; None if there is no code.

    Without a grammar, or in broken code: the lines of the range, starting from its open brackets.
    """
    text = source.text
    start, end = trim_range(text, start, end)
    if start == end and is_blank(text[line_start(text, start) : line_end(text, end)]):
        return None
    view = SyntaxView.from_source(source)
    statement = None if view is None else _statement(view, start, end)
    if view is None or statement is None:
        first, last = _lines(view, text, start, end)
    else:
        first, last = _header_or_all(view, statement, start, end)
    first, last = trim_range(text, first, last)
    if first == last:
        return None
    single_line = is_one_line(text, first, last)
    return HoleSpan(first, last, HoleKind.LINE if single_line else HoleKind.BLOCK, single_line=single_line)


def statement_at(source: Source, offset: int) -> HoleSpan | None:
    """The innermost statement at a cursor, or else beside it on its line; None if there is no code."""
    text = source.text
    start, end = trim_range(text, line_start(text, offset), line_end(text, offset))
    first = min(max(offset, start), max(end - 1, start))
    return statement_around(source, first, min(first + 1, end))


def statement_start(source: Source, offset: int) -> int:
    """The start, at most `offset`, of the innermost statement there; on a blank line, of the one before it.

    In broken code: the start of the line, or of the line with the first open bracket.
    """
    text, view = source.text, SyntaxView.from_source(source)
    if is_blank(text[line_start(text, offset) : line_end(text, offset)]):
        offset = end_of_text_before(text, offset)
    statement = None if view is None else _statement(view, offset, offset)
    if view is not None and statement is not None:
        return min(offset, view.start(statement))
    is_huge = view is not None and view.root.child_count > _HUGE_CHILDREN
    return min(offset, _lines(None if is_huge else view, text, offset, offset)[0])


def trim_range(text: str, start: int, end: int) -> tuple[int, int]:
    """[start, end) without white space at its edges; an empty range at `start` if there is only white space."""
    inside = text[start:end]
    if is_blank(inside):
        return start, start
    return start + len(inside) - len(inside.lstrip()), start + len(inside.rstrip())


def _is_body(view: SyntaxView, start: int, end: int) -> bool:
    """Whether [start, end) is the whole body of a function, with or without its documentation."""
    function = next(iter(functions_around(view, start, end)), None)
    body = None if function is None else body_of(view, function)
    if body is None or not body.parts or not body.is_block:
        return False
    return view.start(body.parts[0]) == start and view.end(body.parts[-1]) <= end


def _hole_kind(view: SyntaxView | None, start: int, is_whole_line: bool, single_line: bool) -> HoleKind:
    if not single_line:
        return HoleKind.BLOCK
    if is_whole_line or (view is not None and string_or_comment_at(view, start)):
        return HoleKind.LINE
    return HoleKind.EXPRESSION


def _statement(view: SyntaxView, start: int, end: int) -> Node | None:
    """The innermost node over the range that is in a block, or ends with one; None: an error is in between."""
    last: Node | None = None
    for node in view.ancestors(view.node_over(start, max(end, min(start + 1, len(view.text))))):
        if node.is_error:
            return None
        if node.type in view.table.blocks and last is not None:
            return last
        following = islice(view.children(node, end, len(view.text)), _MAX_CHILDREN)
        if any(child.type in view.table.blocks and view.start(child) >= end for child in following):
            return node
        last = node
    return None


def _header_or_all(view: SyntaxView, statement: Node, start: int, end: int) -> tuple[int, int]:
    """The statement, or only the part before its block if the range does not reach into the block."""
    first = view.start(statement)
    last = view.end(statement)
    block = _block_after(view, statement, end)
    return (first, last) if block is None else trim_range(view.text, first, view.start(block))


def _block_after(view: SyntaxView, node: Node, offset: int) -> Node | None:
    """The first block within `node` that starts at or after `offset`, at any realistic depth."""
    waiting = [(node, 0)]
    while waiting:
        inner, depth = waiting.pop()
        if inner.type in view.table.blocks and view.start(inner) >= offset:
            return inner
        if depth < _MAX_DEPTH:
            waiting += [(child, depth + 1) for child in reversed(inner.children) if view.end(child) > offset]
    return None


def _lines(view: SyntaxView | None, text: str, start: int, end: int) -> tuple[int, int]:
    """The lines of a range, starting from its open brackets, as far as the tree can tell."""
    brackets = open_brackets_in_block(open_brackets(view, start)) if view is not None else []
    first = line_start(text, min([start, *(bracket.start for bracket in brackets)]))
    return trim_range(text, first, line_end(text, end))
