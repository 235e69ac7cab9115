"""Chooses holes in a text like those that carving will find. Character offsets; it knows nothing of tokens.

The model has to write the text between a hole's cursor and its end.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tree_sitter_python
from tree_sitter import Language, Node, Parser, Query, QueryCursor

from inference.messages import HoleKind

BRACKETS, EXPRESSION, BLOCK = range(3)
Spans = npt.NDArray[np.int32]
"""(n, 3): start, end, kind; sorted by start."""
Prose = npt.NDArray[np.int32]
"""(m, 2): start and end of comments and documentation strings; sorted, no two overlap."""
Offsets = npt.NDArray[np.int32]
CharacterSpan = tuple[int, int]
"""Start and end in a text."""

_WORD = re.compile(r"[^\W\d]\w*|\d+|[^\w\s]")
_START = re.compile(r"(?<!\w)\w|[^\w\s]")
_CODE_SHARE = 0.85
"""The share of anchors in prose to move on to code: a third of a library is prose, and nobody asks for it."""

_WHOLE_LINE_SHARE = 0.35
_SHORT_BLOCK_SHARE = 0.3
_NEAR_CHARACTERS = 150
_LONGEST_CHARACTERS = 400
"""Of a hole of several lines."""
_KINDS = ("rest of line", "lines", "brackets", "expression", "block", "part of line")
_WEIGHTS = (0.30, 0.14, 0.14, 0.10, 0.16, 0.16)
_SPANS = {"brackets": BRACKETS, "expression": EXPRESSION, "block": BLOCK}
_KIND_OF_SPAN = {BRACKETS: HoleKind.ARGUMENTS, EXPRESSION: HoleKind.EXPRESSION, BLOCK: HoleKind.BLOCK}


class TrainingHole(NamedTuple):
    """From the cursor to the end, and the kind that a request for it would name."""

    cursor: int
    end: int
    kind: HoleKind


@dataclass(frozen=True)
class TrainingDocument:
    """A file's text with its spans and its prose, and its path as a user may name it."""

    text: str
    spans: Spans
    prose: Prose
    path: str = ""

    @classmethod
    def of(cls, text: str, path: str = "") -> "TrainingDocument":
        """Reads the syntax of a text."""
        return cls(text, *spans(text), path)

    def code(self, anchor: int) -> int:
        """The anchor, or the end of the comments or documentation string around it."""
        for start, end in self.prose[max(0, int(np.searchsorted(self.prose[:, 0], anchor)) - 1) :]:
            following = _START.search(self.text, anchor)
            if following is None or following.start() < start:
                break
            anchor = max(anchor, int(end))
        return anchor


def choose(document: TrainingDocument, anchor: int, rng: np.random.Generator) -> TrainingHole | None:
    """A hole whose cursor is at or after `anchor` and near it; None if the text ends first."""
    if rng.random() < _CODE_SHARE:
        anchor = document.code(anchor)
    found, kind = _choose(document, anchor, _KINDS[rng.choice(len(_KINDS), p=_WEIGHTS)], rng)
    return None if found is None else TrainingHole(*found, kind)


def _choose(
    document: TrainingDocument, anchor: int, name: str, rng: np.random.Generator
) -> tuple[CharacterSpan | None, HoleKind]:
    if name == "lines":
        return _lines(document.text, anchor, rng), HoleKind.BLOCK
    if name == "part of line":
        return _part_of_line(document.text, anchor, rng), HoleKind.LINE
    if name in _SPANS:
        span = _span(document, anchor, _SPANS[name], rng)
        if span is not None:
            return span, _KIND_OF_SPAN[_SPANS[name]]
    return _rest_of_line(document.text, anchor, rng), HoleKind.LINE


def _rest_of_line(text: str, anchor: int, rng: np.random.Generator) -> CharacterSpan | None:
    """From somewhere in the anchor's line, or the whole of the next one: a cursor is often on an empty line."""
    if rng.random() < _WHOLE_LINE_SHARE and (following := text.find("\n", anchor)) >= 0:
        return _line(text, following)
    line = _line(text, anchor)
    if line is None:
        return None
    cursor = line[0] if rng.random() < 0.25 else _inside(text, line, rng)
    return cursor, line[1]


def _part_of_line(text: str, anchor: int, rng: np.random.Generator) -> CharacterSpan | None:
    """Some words and signs of a line with more behind them; the rest of the line if there are too few."""
    line = _line(text, anchor)
    if line is None:
        return None
    words = list(_WORD.finditer(text, *line))
    if len(words) < 2:
        return _rest_of_line(text, anchor, rng)
    first, last = sorted(rng.choice(len(words), 2, replace=False))
    return words[first].start(), words[last - 1].end()


def _lines(text: str, anchor: int, rng: np.random.Generator) -> CharacterSpan | None:
    """From the start of the next line over some that follow it, as long as they are indented no less."""
    line = _line(text, max(anchor, text.find("\n", anchor)))
    if line is None:
        return None
    start, end = line
    indent = start - text.rfind("\n", 0, start) - 1
    for _ in range(int(rng.integers(1, 6))):
        following = _line(text, end)
        if following is None or following[1] - start > _LONGEST_CHARACTERS:
            break
        if following[0] - text.rfind("\n", 0, following[0]) - 1 < indent:
            break
        end = following[1]
    return start, end


def _span(document: TrainingDocument, anchor: int, kind: int, rng: np.random.Generator) -> CharacterSpan | None:
    """One of the next spans of a kind, whole or from somewhere inside it; usually a block with several lines."""
    first, last = np.searchsorted(document.spans[:, 0], (anchor, anchor + _NEAR_CHARACTERS))
    near = document.spans[first:last]
    near = near[(near[:, 2] == kind) & (near[:, 1] - near[:, 0] <= _LONGEST_CHARACTERS)]
    short = kind != BLOCK or rng.random() < _SHORT_BLOCK_SHARE
    spans = [(int(start), int(end)) for start, end, _ in near if short or "\n" in document.text[start:end]]
    if not spans:
        return None
    start, end = spans[rng.integers(0, min(4, len(spans)))]
    whole = kind == BLOCK or rng.random() < 0.6
    return (start, end) if whole else (_inside(document.text, (start, end), rng), end)


def _inside(text: str, span: CharacterSpan, rng: np.random.Generator) -> int:
    """A place inside a span where a word or sign begins, or has just ended: where people stop to think."""
    words = list(_WORD.finditer(text, *span))
    if not words:
        return span[0]
    word = words[rng.integers(0, len(words))]
    return word.start() if rng.random() < 0.6 or word.end() >= span[1] else word.end()


def _line(text: str, anchor: int) -> CharacterSpan | None:
    """The content, without indentation and space at its end, of the first line that is not blank after `anchor`.

    If the anchor is in the middle of a line, the rest of that line counts, whole words only.
    """
    word = _START.search(text, anchor)
    if word is None:
        return None
    end = text.find("\n", word.start())
    stripped = text[word.start() : end if end >= 0 else len(text)].rstrip()
    return word.start(), word.start() + len(stripped)


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
