"""Finds the function around an offset, and its body without the documentation, from which the body is filled."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from tree_sitter import Node

from inference.messages import HoleKind
from lsp_server.holes.segments import HoleSpan
from lsp_server.syntax import lines
from lsp_server.syntax.parsing import Source
from lsp_server.syntax.view import SyntaxView


@dataclass(frozen=True)
class FunctionBody:
    """The inside of a function's block, and its statements and comments (`parts`) after the documentation string."""

    function: Node
    start: int
    end: int
    parts: tuple[Node, ...]
    is_closed: bool  # by its own bracket or word
    is_block: bool  # and not just an expression


def function_span_around(source: Source, start: int, end: int) -> tuple[int, int] | None:
    """The start and end of the innermost function with its decorators; None outside, and without a grammar."""
    view = SyntaxView.from_source(source)
    function = next(iter(functions_around(view, start, end)), None) if view else None
    return extent_of(view, function) if view and function else None


def body_hole_around(source: Source, offset: int) -> HoleSpan | None:
    """The body of the innermost function at `offset`, existing or missing; None outside, and without a grammar."""
    view = SyntaxView.from_source(source)
    if view is None:
        return None
    bodies = (body_of(view, function) for function in functions_around(view, offset, offset))
    return next((hole_replacing(view, body, body.start, body.parts) for body in bodies if body), None)


def functions_around(view: SyntaxView, start: int, end: int) -> list[Node]:
    """The functions that contain [start, end], innermost first. A cursor below an indented body still belongs to it."""
    if view.table.by_indentation and start == end:
        typed = view.text[lines.line_start(view.text, start) : start]
        above = lines.end_of_text_before(view.text, start) if lines.is_blank(typed) and typed else start
        if above < lines.line_start(view.text, start):
            return [
                node for node in _enclosing(view, above, above) if lines.is_deeper(typed, _outer_indent(view, node))
            ]
    return _enclosing(view, start, end)


def _enclosing(view: SyntaxView, start: int, end: int) -> list[Node]:
    """A cursor between two tokens is in both."""
    functions = dict[int, Node]()
    for first in (start, start - 1) if start == end and start > 0 else (start,):
        for node in view.ancestors(view.node_over(first, max(end, first))):
            wrapped = node.named_children if node.type in view.table.wrappers else ()
            function = next((child for child in wrapped if child.type in view.table.functions), node)
            if function.type in view.table.functions and not _is_short_closure(view, function):
                functions[function.id] = function
    return sorted(functions.values(), key=lambda node: node.end_byte - node.start_byte)


def _is_short_closure(view: SyntaxView, function: Node) -> bool:
    """Whether a function's body is just an expression, as in `x => x + 1`: then it is part of the code around it."""
    body = function.child_by_field_name("body") if function.type in view.table.closures else None
    return body is not None and body.type not in view.table.blocks


def extent_of(view: SyntaxView, function: Node) -> tuple[int, int]:
    """The start and end of a function with its decorators."""
    parent = view.parent(function)
    wrapped = parent if parent is not None and parent.type in view.table.wrappers else function
    return view.start(wrapped), view.end(wrapped)


def body_of(view: SyntaxView, function: Node) -> FunctionBody | None:
    """The body of a function, existing or missing; None for a declaration without one."""
    block = function.child_by_field_name("body")
    if block is not None and block.type not in view.table.blocks:
        has_arrow = block.child_count > 0 and block.children[0].type in view.table.body_arrows
        value = block.named_children[0] if has_arrow else block
        return FunctionBody(function, view.start(value), view.end(value), (value,), is_closed=True, is_block=False)
    has_brackets = block is not None and block.child_count > 0 and block.children[0].type in view.table.openers
    owner = block if block is not None and has_brackets else function
    closer = owner.children[-1]
    is_closed = closer.type in view.table.closers and closer.start_byte < closer.end_byte
    if block is None and not is_closed:
        return None
    if block is not None and has_brackets:
        start = view.end(block.children[0])
        inside = _statements(view, block)
    else:
        header, inside = _header_and_rest(view, function, block or closer)
        start = view.end(header)
    end = view.start(closer) if is_closed else view.end(block or function)
    return _without_documentation(view, function, start, max(start, end), inside, is_closed)


def _header_and_rest(view: SyntaxView, function: Node, block: Node) -> tuple[Node, list[Node]]:
    """The last token of a header without a following bracket, and the comments and statements after it."""
    preceding = list(takewhile(lambda child: child.id != block.id, function.children))
    comments: list[Node] = []
    while len(preceding) > 1 and preceding[-1].type in view.table.comments:
        comments.insert(0, preceding.pop())
    return (preceding[-1] if preceding else function), [*comments, *_statements(view, block)]


def _statements(view: SyntaxView, block: Node) -> list[Node]:
    """The statements and comments of a block, even if the grammar puts them in a separate list."""
    return [
        statement
        for child in block.named_children
        for statement in (
            child.named_children
            if child.type in view.table.blocks and child.child_count and child.children[0].is_named
            else [child]
        )
    ]


def _without_documentation(
    view: SyntaxView, function: Node, start: int, end: int, inside: Sequence[Node], is_closed: bool
) -> FunctionBody:
    """The body without documentation and without a comment on the header's line, which belongs to the header."""
    parts = list(inside)
    while parts and parts[0].type in view.table.comments and lines.is_one_line(view.text, start, view.start(parts[0])):
        start = view.end(parts.pop(0))
    first = next((part for part in parts if part.type not in view.table.comments), None)
    is_below = first is not None and not lines.is_one_line(view.text, start, view.start(first))
    if first is not None and is_below and is_documentation(view, function, first):
        start = view.end(first)
        parts = parts[parts.index(first) + 1 :]
    return FunctionBody(function, start, max(end, start), tuple(parts), is_closed, is_block=True)


def hole_replacing(view: SyntaxView, body: FunctionBody, start: int, parts: Sequence[Node]) -> HoleSpan:
    """The hole that replaces `parts`, the last ones of a body, or is added at its end. Text before `start` stays."""
    text = view.text
    first, last = (view.start(parts[0]), view.end(parts[-1])) if parts else (start, start)
    if not body.is_block or not lines.is_one_line(text, start, first):
        return HoleSpan(first, last, HoleKind.BODY)
    if body.is_closed and lines.is_one_line(text, last, body.end):
        last = body.end
    elif body.is_closed and not parts:  # blank lines
        last = max(lines.end_of_line_before(text, body.end), start)
    return HoleSpan(start, last, HoleKind.BODY, lines.eol_at(text, start) + _body_indent(view, body))


def _body_indent(view: SyntaxView, body: FunctionBody) -> str:
    """The indentation of a body's statements: that of the first one, if it has a line of its own."""
    block = body.function.child_by_field_name("body")
    parts = _statements(view, block) if block is not None else []
    first = next((view.start(part) for part in parts if part.type not in view.table.comments), 0)
    line_prefix = view.text[lines.line_start(view.text, first) : first]
    if line_prefix and lines.is_blank(line_prefix):
        return line_prefix
    return _outer_indent(view, body.function) + lines.indent_step(view.text, body.start, view.table.indent)


def header_of(view: SyntaxView, node: Node) -> str:
    """The code of a function before its body, with its decorators."""
    start, end = extent_of(view, node)
    block = node.child_by_field_name("body")
    return view.text[start : end if block is None else max(view.start(block), start)]


def _outer_indent(view: SyntaxView, function: Node) -> str:
    return lines.indentation(view.text, view.start(function))


def is_documentation(view: SyntaxView, function: Node, statement: Node) -> bool:
    """Whether `statement`, the first one of a function or class, is its documentation string."""
    return (
        function.type in view.table.documented
        and statement.type in view.table.statements
        and statement.named_child_count == 1
        and statement.named_children[0].type in view.table.strings
    )
