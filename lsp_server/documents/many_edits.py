"""A text under many consecutive edits: each costs as much as the lines it touches, not the text."""

import re

from lsp_server.documents.positions import Encoding

_LINE_START = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
_PAIR = re.compile("[\U00010000-\U0010ffff]")


class EditedLines:
    """The lines of a text in units of an encoding, each stored as one character: a byte, or half a surrogate pair."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self._encoding = encoding
        self._lines = _LINE_START.split(self._units(text))

    def text(self) -> str:
        """The current text. In UTF-16, adjacent halves of surrogate pairs are one character."""
        units = "".join(self._lines)
        if units.isascii() or self._encoding is Encoding.UTF32:
            return units
        if self._encoding is Encoding.UTF8:
            return units.encode("latin-1").decode("utf-8", "surrogatepass")
        return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")

    def replace(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        """Replaces the range between two positions, `start` first. They are clamped as in `LineIndex.offset`."""
        (first, before), (last, after) = self._place(*start), self._place(*end)
        added = self._units(text)
        line = self._lines[first][:before] + added + self._lines[last][after:]
        if "\n" not in added and "\r" not in added and not line.startswith("\n"):
            self._lines[first : last + 1] = [line]
            return
        region = "".join(self._lines[max(first - 1, 0) : first]) + line  # a `\r` and a `\n` may have met
        lines = _LINE_START.split(region)
        if last + 1 < len(self._lines):
            lines.pop()  # the region ends with a line end: what follows it begins the next line
        self._lines[max(first - 1, 0) : last + 1] = lines

    def _place(self, line: int, column: int) -> tuple[int, int]:
        """A valid line and a column in it: not in its line end, and not inside a code point's bytes."""
        if line < 0 or line >= len(self._lines):
            return (0, 0) if line < 0 else (len(self._lines) - 1, len(self._lines[-1]))
        text = self._lines[line]
        column = min(max(column, 0), _length(text))
        if self._encoding is Encoding.UTF8:
            while 0 < column < len(text) and ord(text[column]) & 0xC0 == 0x80:
                column -= 1
        return line, column

    def _units(self, text: str) -> str:
        if text.isascii() or self._encoding is Encoding.UTF32:
            return text
        if self._encoding is Encoding.UTF8:
            return text.encode("utf-8", "surrogatepass").decode("latin-1")
        return _PAIR.sub(_halves, text)


def _halves(pair: re.Match[str]) -> str:
    high, low = divmod(ord(pair[0]) - 0x10000, 0x400)
    return chr(0xD800 + high) + chr(0xDC00 + low)


def _length(line: str) -> int:
    """Of a line without its line end."""
    return len(line) - (2 if line.endswith("\r\n") else line.endswith(("\n", "\r")))
