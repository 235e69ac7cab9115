"""Parses a text with tree-sitter, whole or after an edit, and converts between its UTF-8 bytes and our `str` indices.

A lone surrogate, which an editor may send, is parsed as `?`.
"""

from bisect import bisect_right

from tree_sitter import Parser, Tree

from lsp_server.syntax.languages import grammar_of, table_of
from lsp_server.syntax.mending import parse_mended

MAX_PARSED_CHARACTERS = 2_000_000
"""A longer text gets no tree, because its first parse would block typing for a good part of a second."""

LONG_CHARACTERS = 20_000
"""A shorter text parses fast enough, broken or not."""

_CHUNK_CHARACTERS = 2048


def encode(text: str) -> bytes:
    """The bytes that tree-sitter reads for `text`."""
    return text.encode("utf-8", "replace")


def parse(language_id: str, text: str, old_tree: Tree | None = None, edited: int | None = None) -> Tree | None:
    """The tree of `text`; None if its language has no grammar, or it is longer than `MAX_PARSED_CHARACTERS`.

    `old_tree` makes it fast: the tree of an earlier text, to which `edit_tree` has applied each edit since then.
    `edited` is where the last edit ends; it keeps a long text fast that this edit broke: see `mending`.
    """
    language = grammar_of(language_id)
    if language is None or len(text) > MAX_PARSED_CHARACTERS:
        return None
    if old_tree is not None and edited is not None and len(text) > LONG_CHARACTERS:
        mended = parse_mended(language, table_of(language_id), text, old_tree, edited)
        if mended is not None:
            return mended
    data = encode(text)
    return Parser(language).parse(data) if old_tree is None else Parser(language).parse(data, old_tree)


def edit_tree(tree: Tree, text: str, start: int, end: int, replacement: str) -> None:
    """Tell `tree`, the tree of `text`, that [start, end) is replaced.

    Changes `tree`: if others have it too, pass a copy.
    """
    start_byte, start_row, start_column = _byte_and_point(text, start)
    old_byte, old_row, old_column = _byte_and_point(text, end)
    data = encode(replacement)
    rows, tail = data.count(b"\n"), len(data) - data.rfind(b"\n") - 1
    new_column = tail if rows else start_column + len(data)
    tree.edit(
        start_byte,
        old_byte,
        start_byte + len(data),
        (start_row, start_column),
        (old_row, old_column),
        (start_row + rows, new_column),
    )


def _byte_and_point(text: str, offset: int) -> tuple[int, int, int]:
    """The byte of `offset`, its row, and its column in bytes. A row ends only at `\\n`, unlike the LSP's lines."""
    row = text.count("\n", 0, offset)
    line_start = text.rfind("\n", 0, offset) + 1
    if text.isascii():
        return offset, row, offset - line_start
    return len(encode(text[:offset])), row, len(encode(text[line_start:offset]))


class ByteOffsets:
    """Converts between `str` indices of one text and offsets into its UTF-8 bytes. Costs nothing if it is all ASCII."""

    __slots__ = ("_ascii", "_starts", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._ascii = text.isascii()
        self._starts = [0]
        if not self._ascii:
            for at in range(0, len(text), _CHUNK_CHARACTERS):
                self._starts.append(self._starts[-1] + len(encode(text[at : at + _CHUNK_CHARACTERS])))

    def to_byte(self, offset: int) -> int:
        """The byte at which the character at `offset` starts."""
        if self._ascii:
            return offset
        chunk = offset // _CHUNK_CHARACTERS
        return self._starts[chunk] + len(encode(self._text[chunk * _CHUNK_CHARACTERS : offset]))

    def to_offset(self, byte: int) -> int:
        """The `str` index of the character that starts at `byte`."""
        if self._ascii:
            return byte
        chunk = max(bisect_right(self._starts, byte, 0, len(self._starts) - 1) - 1, 0)
        at = chunk * _CHUNK_CHARACTERS
        data = encode(self._text[at : at + _CHUNK_CHARACTERS])[: byte - self._starts[chunk]]
        return at + len(data.decode("utf-8", "ignore"))
