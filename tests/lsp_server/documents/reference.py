"""A literal implementation of the protocol's edits, to check the server's text."""

import re
from typing import Any

ContentChange = dict[str, Any]
"""A content change as it is in JSON."""


class ReferenceText:
    """A text as an editor with this encoding holds it: in UTF-16 a string of code units, else of code points."""

    def __init__(self, text: str, encoding: str) -> None:
        self.encoding = encoding
        self._units = self._in_units(text)

    @property
    def text(self) -> str:
        whole = self._units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return re.sub("[\ud800-\udfff]", "\ufffd", whole if self.encoding == "utf-16" else self._units)

    def apply(self, change: ContentChange) -> None:
        """Apply one change. Clamps positions outside the text, and turns a backwards range around."""
        new = self._in_units(change["text"])
        if "range" in change:
            start, end = sorted(self._offset(change["range"][name]) for name in ("start", "end"))
            new = self._units[:start] + new + self._units[end:]
        self._units = new

    def _in_units(self, text: str) -> str:
        data = text.encode("utf-16-le", "surrogatepass")
        if self.encoding != "utf-16":
            return data.decode("utf-16-le", "surrogatepass")  # JSON cannot tell two halves from a whole
        return "".join(chr(int.from_bytes(data[at : at + 2], "little")) for at in range(0, len(data), 2))

    def _offset(self, position: dict[str, int]) -> int:
        lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", self._units)
        if position["line"] >= len(lines):
            return len(self._units)
        line = re.sub(r"[\r\n]+$", "", lines[position["line"]])
        return sum(map(len, lines[: position["line"]])) + self._column(line, position["character"])

    def _column(self, line: str, character: int) -> int:
        """In UTF-8 a position inside a character is its start."""
        if self.encoding != "utf-8":
            return min(character, len(line))
        at = used = 0
        while at < len(line) and (used := used + len(line[at].encode("utf-8", "surrogatepass"))) <= character:
            at += 1
        return at
