"""A literal implementation of the protocol's edits, to check the server's text."""

import re
from typing import Any

ContentChange = dict[str, Any]
"""A content change as it is in JSON."""


class ReferenceText:
    """A text as an editor with this encoding holds it, but for halves of surrogate pairs."""

    def __init__(self, text: str, encoding: str) -> None:
        self.encoding = encoding
        self.text = whole(text)

    def apply(self, change: ContentChange) -> None:
        """Apply one change. Clamps positions outside the text, and turns a backwards range around."""
        start, end = 0, len(self.text)
        if "range" in change:
            start, end = sorted(self._offset(change["range"][name]) for name in ("start", "end"))
        self.text = self.text[:start] + whole(change["text"]) + self.text[end:]

    def _offset(self, position: dict[str, int]) -> int:
        lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", self.text)
        if position["line"] >= len(lines):
            return len(self.text)
        line = re.sub(r"[\r\n]+$", "", lines[position["line"]])
        return sum(map(len, lines[: position["line"]])) + self._column(line, position["character"])

    def _column(self, line: str, character: int) -> int:
        """A position inside a character is its start."""
        at = used = 0
        while at < len(line) and (used := used + self._units(line[at])) <= character:
            at += 1
        return at

    def _units(self, character: str) -> int:
        if self.encoding == "utf-8":
            return len(character.encode())
        return 2 if self.encoding == "utf-16" and character > "\uffff" else 1


def whole(text: str) -> str:
    """A text without halves of surrogate pairs; JSON cannot tell two halves from a whole."""
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return re.sub("[\ud800-\udfff]", "\ufffd", joined)
