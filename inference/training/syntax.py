"""Spans of a Python file that carving turns into holes, and its prose. Character offsets."""

from functools import cache

import numpy as np
import numpy.typing as npt
import tree_sitter_python
from tree_sitter import Language, Node, Parser, Query, QueryCursor

BRACKETS, EXPRESSION, BLOCK = range(3)
Spans = npt.NDArray[np.int32]
"""(n, 3): start, end, kind; sorted by start."""
Prose = npt.NDArray[np.int32]
"""(m, 2): start and end of comments and documentation strings; sorted, no two overlap."""
Offsets = npt.NDArray[np.int32]

_QUERY = """
[(argument_list) (parameters) (list) (dictionary) (tuple) (parenthesized_expression)] @brackets
(assignment right: (_) @expression)
(return_statement (_) @expression)
(if_statement condition: (_) @expression)
(while_statement condition: (_) @expression)
(for_statement right: (_) @expression)
(keyword_argument value: (_) @expression)
(argument_list (_) @expression)
(block) @block
(comment) @prose
(expression_statement (string) @prose)
"""


@cache
def _tools() -> tuple[Parser, Query]:
    language = Language(tree_sitter_python.language())
    return Parser(language), Query(language, _QUERY)


def spans(text: str) -> tuple[Spans, Prose]:
    """Every span of a file, and its prose. Text that does not parse simply has fewer."""
    parser, query = _tools()
    data = text.encode()
    captures = QueryCursor(query).captures(parser.parse(data).root_node)
    prose = sorted((node.start_byte, node.end_byte) for node in captures.get("prose", []))
    at = _characters(data)
    return _holes(captures, at), at[np.array(prose, np.int32).reshape(-1, 2)]


def _holes(captures: dict[str, list[Node]], at: Offsets) -> Spans:
    """(n, 3); an empty span is no hole."""
    found = [(node.start_byte + 1, node.end_byte - 1, BRACKETS) for node in captures.get("brackets", [])]
    found += [(node.start_byte, node.end_byte, EXPRESSION) for node in captures.get("expression", [])]
    found += [(node.start_byte, node.end_byte, BLOCK) for node in captures.get("block", [])]
    table = np.array(sorted(found), np.int32).reshape(-1, 3)
    table[:, :2] = at[table[:, :2]]
    return table[table[:, 1] > table[:, 0]]


def _characters(data: bytes) -> Offsets:
    """The character offset of each byte offset, the end included: UTF-8's continuation bytes begin no character."""
    starts = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
    return np.concatenate([[0], np.cumsum(starts)]).astype(np.int32)
