"""Converts between positions of the protocol and indices into a Python `str`.

A position is a zero-based line and a column in units of the negotiated encoding. Lines end at `\\n`, `\\r\\n` and `\\r`
only; `str.splitlines` would also break at \\x0b, \\x85, U+2028 and others. No text here has half a surrogate pair.
"""

from bisect import bisect_left, bisect_right
from enum import StrEnum

from lsp_server.syntax.lines import LINE_END


class Encoding(StrEnum):
    """The unit of a column: a UTF-8 byte, a UTF-16 code unit, or a code point."""

    UTF8 = "utf-8"
    UTF16 = "utf-16"
    UTF32 = "utf-32"


_CODECS = {Encoding.UTF8: ("utf-8", 1), Encoding.UTF16: ("utf-16-le", 2), Encoding.UTF32: ("utf-32-le", 4)}
"""The codec of each encoding, and the bytes in a unit."""


class LineIndex:
    """The line starts of one text. Immutable like the text; `edited` makes the index of an edited text."""

    __slots__ = ("_starts", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in LINE_END.finditer(text))]

    @property
    def line_count(self) -> int:
        """The number of lines, at least 1: a final line end is followed by an empty line."""
        return len(self._starts)

    def line_of(self, offset: int) -> int:
        """The line that contains `offset`; between the two characters of `\r\n`, the line that they end."""
        return bisect_right(self._starts, max(offset, 0)) - 1

    def line_start(self, line: int) -> int:
        """The offset at which `line` starts; the start or end of the text for a line before or beyond it."""
        if line >= len(self._starts):
            return len(self._text)
        return self._starts[max(line, 0)]

    def line_end(self, line: int) -> int:
        """The offset at which `line` ends, without its line end."""
        if line + 1 >= len(self._starts):
            return len(self._text)
        end = self._starts[max(line, 0) + 1] - 1
        if self._text.startswith("\r\n", end - 1) and end > self.line_start(line):
            return end - 1
        return end

    def offset(self, line: int, character: int, encoding: Encoding) -> int:
        """The `str` index of a position, clamped to its line and to the text, and to the start of a code point."""
        if line < 0 or line >= len(self._starts):
            return 0 if line < 0 else len(self._text)
        start = self._starts[line]
        end = self.line_end(line)
        return start + _code_points(self._text[start:end], max(character, 0), encoding)

    def position(self, offset: int, encoding: Encoding) -> tuple[int, int]:
        """The position of a `str` index, clamped to the text, and moved before a line end that it would split."""
        offset = min(max(offset, 0), len(self._text))
        line = self.line_of(offset)
        start = self._starts[line]
        return line, _units(self._text[start : min(offset, self.line_end(line))], encoding)

    def edited(self, start: int, end: int, replacement: str, text: str) -> "LineIndex":
        """The index of `text`, which is this index's text with [start, end) replaced, without rereading all of it."""
        new_end = start + len(replacement)
        line_starts = (match.end() for match in LINE_END.finditer(text, max(start - 1, 0), new_end + 1))
        edited = LineIndex.__new__(LineIndex)
        edited._text = text
        edited._starts = self._starts[: max(bisect_left(self._starts, start), 1)]  # offset 0 always starts a line
        edited._starts += [offset for offset in line_starts if start <= offset <= new_end]
        shift = new_end - end
        edited._starts += map(shift.__add__, self._starts[bisect_right(self._starts, end) :])  # millions of lines
        return edited


def clip_units(text: str, units: int, encoding: Encoding) -> str:
    """The start of `text` that takes `units` of `encoding`; drops a code point that would be split."""
    return text[: _code_points(text, max(units, 0), encoding)]


def _units(text: str, encoding: Encoding) -> int:
    codec, unit_bytes = _CODECS[encoding]
    return len(text) if text.isascii() else len(text.encode(codec, "surrogatepass")) // unit_bytes


def _code_points(line: str, units: int, encoding: Encoding) -> int:
    """The number of whole code points in the first `units` units of `line`."""
    if line.isascii():
        return min(units, len(line))
    codec, unit_bytes = _CODECS[encoding]
    return len(line.encode(codec, "surrogatepass")[: units * unit_bytes].decode(codec, "ignore"))
