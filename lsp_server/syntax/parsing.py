"""Parses a text with tree-sitter, whole or after an edit, and ends a parse that takes too long.

tree-sitter needs minutes for some texts, such as long ones full of errors.
"""

import re
import time
from bisect import bisect_right
from dataclasses import dataclass
from itertools import islice

from tree_sitter import Parser, Tree

from lsp_server.syntax.language_table import HARMFUL_PATTERNS
from lsp_server.syntax.languages import LanguageTable, grammar_of, table_of
from lsp_server.syntax.lines import newlines_for_lone_cr

_CHUNK_CHARACTERS = 2048


def encode_for_parser(text: str) -> bytes:
    """The bytes that tree-sitter reads for `text`. A lone surrogate, which an editor may send, becomes `?`."""
    return text.encode("utf-8", "replace")


def byte_and_point(text: str, offset: int) -> tuple[int, int, int]:
    """The byte of `offset`, its row, and its column in bytes. A row ends only at `\\n`, unlike the LSP's lines."""
    row = text.count("\n", 0, offset)
    line_start = text.rfind("\n", 0, offset) + 1
    if text.isascii():
        return offset, row, offset - line_start
    return len(encode_for_parser(text[:offset])), row, len(encode_for_parser(text[line_start:offset]))


class ByteOffsets:
    """Converts between `str` indices of one text and offsets into its UTF-8 bytes. Free if it is all ASCII."""

    __slots__ = ("_ascii", "_starts", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._ascii = text.isascii()
        self._starts = [0]
        if not self._ascii:
            for start in range(0, len(text), _CHUNK_CHARACTERS):
                self._starts.append(self._starts[-1] + len(encode_for_parser(text[start : start + _CHUNK_CHARACTERS])))

    def byte_at(self, offset: int) -> int:
        if self._ascii:
            return offset
        chunk = offset // _CHUNK_CHARACTERS
        return self._starts[chunk] + len(encode_for_parser(self._text[chunk * _CHUNK_CHARACTERS : offset]))

    def offset_at(self, byte: int) -> int:
        """The `str` index of the character that starts at `byte`."""
        if self._ascii:
            return byte
        chunk = max(bisect_right(self._starts, byte, 0, len(self._starts) - 1) - 1, 0)
        start = chunk * _CHUNK_CHARACTERS
        data = encode_for_parser(self._text[start : start + _CHUNK_CHARACTERS])[: byte - self._starts[chunk]]
        return start + len(data.decode("utf-8", "ignore"))


MAX_PARSED_CHARACTERS = 2_000_000
"""A longer text gets no tree, because its first parse would block typing for a good part of a second."""

MAX_PARSE_S = 2.0
"""In processor time: a text that takes longer gets no tree. The longest one takes half of that if it is sound."""


class CpuLimit:
    """When to give up (`reached`): after `cpu_s` of processor time since the first question, or once told to."""

    def __init__(self, cpu_s: float) -> None:
        self.reached = False
        self._cpu_s = cpu_s
        self._questions = 0
        self._began_s = self._now_s = 0.0

    @property
    def spent_s(self) -> float:
        """The processor time between the first question and about the last."""
        return self._now_s - self._began_s

    def stop(self) -> None:
        self.reached = True

    def __call__(self, _byte: int, _has_error: bool) -> bool:
        """Whether to give up now. A parser asks so often that only one question in sixteen looks at the clock."""
        if self._questions % 16 == 0:
            self._now_s = time.thread_time()
            self._began_s = self._began_s if self._questions else self._now_s
        self._questions += 1
        self.reached = self.reached or self.spent_s >= self._cpu_s
        return self.reached


_COPIED_BYTES = 64
"""tree-sitter 0.26 never frees what it reads: so that is a view, which is released, or this much of the text."""


def parse(language_id: str, text: str, old_tree: Tree | None = None, limit: CpuLimit | None = None) -> Tree | None:
    """The tree of `text`; None without a grammar, beyond the limits, or if parsing it would crash.

    `old_tree` makes it fast: that of an earlier text, after `edit_tree` for each edit since.
    """
    language = grammar_of(language_id)
    if language is None or len(text) > MAX_PARSED_CHARACTERS or _is_harmful(table_of(language_id), text):
        return None
    if "\r" in text and "\n" not in text:  # grammars take it for white space within a line
        text, old_tree = newlines_for_lone_cr(text, text), None
    data = encode_for_parser(text)
    views: list[memoryview] = []
    is_parsed = False

    def read(byte: int, _: object) -> bytes | memoryview:  # the parser takes a limit only with a function
        if is_parsed or byte + _COPIED_BYTES > len(data):  # the text of a node must be bytes
            return data[byte : byte + _COPIED_BYTES]
        views.append(memoryview(data)[byte:])
        return views[-1]

    parser, limit = Parser(language), limit or CpuLimit(MAX_PARSE_S)
    try:
        if old_tree is None:  # the parser takes no None
            return parser.parse(read, progress_callback=limit)
        return parser.parse(read, old_tree, progress_callback=limit)
    except ValueError:  # raised for a stopped parse
        return None
    finally:
        is_parsed = True
        for view in views:
            view.release()


def _is_harmful(table: LanguageTable, text: str) -> bool:
    """Whether parsing the text would crash this process, or take all its memory."""
    return any(
        next(islice(re.finditer(pattern, text, re.MULTILINE), max_matches, None), None) is not None
        for pattern, max_matches in map(HARMFUL_PATTERNS.__getitem__, table.harmful)
    )


def edit_tree(tree: Tree, text: str, start: int, end: int, replacement: str) -> None:
    """Tells `tree`, the tree of `text`, that [start, end) is replaced. Changes it: pass a copy if it is shared."""
    start_byte, start_row, start_column = byte_and_point(text, start)
    old_byte, old_row, old_column = byte_and_point(text, end)
    data = encode_for_parser(replacement)
    rows = data.count(b"\n")
    tail = len(data) - data.rfind(b"\n") - 1
    new_column = tail if rows else start_column + len(data)
    tree.edit(
        start_byte,
        old_byte,
        start_byte + len(data),
        (start_row, start_column),
        (old_row, old_column),
        (start_row + rows, new_column),
    )


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, eq=False)
class Source:
    """An immutable text. `tree` is its parse, or None. `uri` has the extension; empty: there is none."""

    text: str
    language_id: str
    tree: Tree | None
    uri: str

    @staticmethod
    def parse(language_id: str, text: str, uri: str = "") -> "Source":
        return Source(text, language_id, parse(language_id, text), uri)


def replace_lone_surrogates(text: str) -> str:
    """`text` with U+FFFD in place of each lone surrogate, which UTF-8 cannot hold and no model can read."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)
