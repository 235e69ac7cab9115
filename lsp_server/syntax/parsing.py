"""Parses a text with tree-sitter, whole or after an edit, and ends a parse that takes too long.

tree-sitter needs minutes for some texts, such as long ones full of errors. After an open bracket it tries to make sense
of everything that follows: 30 ms for half of 5,000 lines. So while the user types a line of a long text, we soon give
up, parse the text as if the brackets opened on the cursor's line were closed there, and remove our additions from the
tree: they stay as tokens without any width.
"""

import re
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from tree_sitter import Language, Parser, Tree

from inference.ending import unpaired
from lsp_server.syntax.language_table import HARMFUL
from lsp_server.syntax.languages import CLOSERS, LanguageTable, grammar_of, table_of
from lsp_server.syntax.lines import line_end, line_start, model_line_ends
from lsp_server.syntax.scanning import find_brackets, open_quote

_CHUNK_CHARACTERS = 2048


def encode(text: str) -> bytes:
    """The bytes that tree-sitter reads for `text`. A lone surrogate, which an editor may send, becomes `?`."""
    return text.encode("utf-8", "replace")


def byte_and_point(text: str, offset: int) -> tuple[int, int, int]:
    """The byte of `offset`, its row, and its column in bytes. A row ends only at `\\n`, unlike the LSP's lines."""
    row = text.count("\n", 0, offset)
    line_start = text.rfind("\n", 0, offset) + 1
    if text.isascii():
        return offset, row, offset - line_start
    return len(encode(text[:offset])), row, len(encode(text[line_start:offset]))


class ByteOffsets:
    """Converts between `str` indices of one text and offsets into its UTF-8 bytes. Free if it is all ASCII."""

    __slots__ = ("_ascii", "_starts", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._ascii = text.isascii()
        self._starts = [0]
        if not self._ascii:
            for start in range(0, len(text), _CHUNK_CHARACTERS):
                self._starts.append(self._starts[-1] + len(encode(text[start : start + _CHUNK_CHARACTERS])))

    def byte_at(self, offset: int) -> int:
        if self._ascii:
            return offset
        chunk = offset // _CHUNK_CHARACTERS
        return self._starts[chunk] + len(encode(self._text[chunk * _CHUNK_CHARACTERS : offset]))

    def offset_at(self, byte: int) -> int:
        """The `str` index of the character that starts at `byte`."""
        if self._ascii:
            return byte
        chunk = max(bisect_right(self._starts, byte, 0, len(self._starts) - 1) - 1, 0)
        start = chunk * _CHUNK_CHARACTERS
        data = encode(self._text[start : start + _CHUNK_CHARACTERS])[: byte - self._starts[chunk]]
        return start + len(data.decode("utf-8", "ignore"))


_MAX_SLOW_STEPS = 16
_MAX_SLOW_STEPS_MENDED = 60
_SLOW_BYTES = 600
"""tree-sitter advances less than this between two of its questions if it does not reuse the old tree."""

_MAX_MENDED_S = 0.012
"""The limit for a mended text: the cost of a sound text of some thousand lines without an old tree."""

_MAX_LINE_CHARACTERS = 4000
_BEFORE_A_NAME = "+-*/%=&|<>!?:.,^~@"
_CHUNK_BYTES = 16384
MAX_PARSED_CHARACTERS = 2_000_000
"""A longer text gets no tree, because its first parse would block typing for a good part of a second."""

LONG_CHARACTERS = 20_000
"""In a shorter text a broken line is not mended, because the parse is fast anyway."""

MAX_PARSE_S = 2.0
"""In processor time: a text that takes longer gets no tree. The longest one takes half of that if it is sound."""


def parse_mended(language: Language, table: LanguageTable, text: str, old_tree: Tree, edited: int) -> Tree | None:
    """The tree of `text`, as if the code before `edited` were closed; None if that is slow or breaks something."""
    data = encode(text)
    tree = parse_unless(_after_slow_steps(_MAX_SLOW_STEPS), language, data, old_tree)
    if tree is not None:
        return tree
    closers = missing_closers(text, edited, table)
    if not closers:
        return None
    byte = len(encode(text[:edited]))
    line = data.count(b"\n", 0, byte)
    start = (line, byte - data.rfind(b"\n", 0, byte) - 1)
    end = (line, start[1] + len(closers))
    mended = old_tree.copy()
    mended.edit(byte, byte, byte + len(closers), start, start, end)
    data = data[:byte] + closers.encode() + data[byte:]
    was_broken = old_tree.root_node.has_error
    tree = parse_unless(_after_slow_steps(_MAX_SLOW_STEPS_MENDED), language, data, mended)
    if tree is None and was_broken:  # nothing of it can be reused until it has been mended once
        tree = parse_unless(CpuLimit(_MAX_MENDED_S), language, data, mended)
    if tree is None or (tree.root_node.has_error and not was_broken):  # a line below may close the bracket
        return None
    tree.edit(byte, byte + len(closers), byte, start, end, start)
    return tree


def missing_closers(text: str, offset: int, table: LanguageTable) -> str:
    """The closers that the expression before `offset` lacks on its line: a quote or a name, and brackets."""
    start = line_start(text, offset)
    end = line_end(text, offset)
    if end - start > _MAX_LINE_CHARACTERS:
        return ""
    line_prefix = text[start:offset].rstrip()
    quote = open_quote(line_prefix, table)
    ending = (
        line_prefix[quote]
        if quote >= 0
        else table.shortest_expression
        if line_prefix and line_prefix[-1] in _BEFORE_A_NAME
        else ""
    )
    _, still_open = unpaired(find_brackets(line_prefix[:quote] if quote >= 0 else line_prefix, table))
    closers, _ = unpaired(find_brackets(text[offset:end], table))
    return ending + "".join(CLOSERS[bracket] for _, bracket in reversed(still_open[len(closers) :]))


def _after_slow_steps(count: int) -> Callable[[int], bool]:
    last = slow = 0

    def give_up(offset: int) -> bool:
        nonlocal last, slow
        slow += offset - last < _SLOW_BYTES
        last = offset
        return slow > count

    return give_up


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

    def __call__(self, _: int) -> bool:
        """Whether to give up now. A parser asks so often that only one question in sixteen looks at the clock."""
        if self._questions % 16 == 0:
            self._now_s = time.thread_time()
            self._began_s = self._began_s if self._questions else self._now_s
        self._questions += 1
        self.reached = self.reached or self.spent_s >= self._cpu_s
        return self.reached


def parse_unless(give_up: Callable[[int], bool], language: Language, data: bytes, old_tree: Tree | None) -> Tree | None:
    """The tree of `data`, or None if `give_up` said so, given the bytes parsed. Other threads run meanwhile."""

    def read(byte: int, _: object) -> bytes:
        return data[byte : byte + _CHUNK_BYTES]

    def progress(byte: int, _: bool) -> bool:
        return give_up(byte)

    parser = Parser(language)
    try:
        if old_tree is None:
            return parser.parse(read, progress_callback=progress)
        return parser.parse(read, old_tree, progress_callback=progress)
    except ValueError:  # raised for a stopped parse
        return None


def parse(
    language_id: str, text: str, old_tree: Tree | None = None, edited: int | None = None, limit: CpuLimit | None = None
) -> Tree | None:
    """The tree of `text`; None without a grammar, beyond the limits, or if parsing it would crash.

    `old_tree` makes it fast: that of an earlier text, after `edit_tree` for each edit since. `edited`, the end of the
    last edit, keeps a long text fast that this edit broke: see above.
    """
    language = grammar_of(language_id)
    if language is None or len(text) > MAX_PARSED_CHARACTERS or _is_harmful(table_of(language_id), text):
        return None
    limit = limit or CpuLimit(MAX_PARSE_S)
    if "\r" in text and "\n" not in text:  # grammars take it for white space within a line
        text, old_tree = model_line_ends(text, text), None
    if old_tree is not None and edited is not None and len(text) > LONG_CHARACTERS:
        mended = parse_mended(language, table_of(language_id), text, old_tree, edited)
        if mended is not None:
            return mended
    return parse_unless(limit, language, encode(text), old_tree)


def _is_harmful(table: LanguageTable, text: str) -> bool:
    """Whether parsing the text would crash this process, or take all its memory."""
    return any(
        next(islice(re.finditer(pattern, text, re.MULTILINE), max_matches, None), None) is not None
        for pattern, max_matches in map(HARMFUL.__getitem__, table.harmful)
    )


def edit_tree(tree: Tree, text: str, start: int, end: int, replacement: str) -> None:
    """Tells `tree`, the tree of `text`, that [start, end) is replaced. Changes it: pass a copy if it is shared."""
    start_byte, start_row, start_column = byte_and_point(text, start)
    old_byte, old_row, old_column = byte_and_point(text, end)
    data = encode(replacement)
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
