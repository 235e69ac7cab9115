"""Converts between `str` indices, which we count, and offsets into UTF-8 bytes, which tree-sitter counts."""

from bisect import bisect_right

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
