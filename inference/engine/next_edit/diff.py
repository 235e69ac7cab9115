"""Writes changes as a unified diff, a format code models know well: it ends where a line's new text would begin.

Omits line numbers. Shows a place with the lines before it, and its text with the line behind it.
"""

from collections.abc import Sequence

from inference.engine.next_edit.tokens import lines_of
from inference.messages import Hunk

_ABOVE = 5
_ABOVE_HUNK = 2
_MOST_HUNKS, _MOST_CHARACTERS = 3, 900
"""How much of the latest changes to show."""


def changes(path: str, lines: Sequence[str], hunks: Sequence[Hunk]) -> str:
    """The head of a diff, and the latest of the changes that led to `lines`."""
    shown = "".join(_change(lines, hunk) for hunk in hunks[-_MOST_HUNKS:])
    return f"--- a/{path}\n+++ b/{path}\n{shown[-_MOST_CHARACTERS:]}"


def place(lines: Sequence[str], line: int, now: str) -> str:
    """The start of one more change: removes `now`, the text from a line on."""
    return "@@\n" + _each(" ", "".join(lines[max(0, line - _ABOVE) : line])) + _each("-", now)


def text(lines: Sequence[str], end: int, new: str) -> str:
    """The rest of that change: inserts `new` before line `end`."""
    below = lines[end] if end < len(lines) else "\n"
    return _each("+", new) + " " + below


def _change(lines: Sequence[str], hunk: Hunk) -> str:
    end = hunk.line + hunk.new.count("\n")
    above = lines[max(0, hunk.line - _ABOVE_HUNK) : hunk.line]
    below = lines[end : end + 1]
    changed = _each("-", hunk.old) + _each("+", hunk.new)
    return "@@\n" + _each(" ", "".join(above)) + changed + _each(" ", "".join(below))


def _each(mark: str, block: str) -> str:
    return "".join(mark + line for line in lines_of(block))
