"""Decides how much of a text that is still being written can be sent, and where it ends.

It is sent line by line, as far as it cannot change any more: a model that writes from left to right may still drop its
last lines. One that refines a whole text sends it at its end.
"""

import re
from collections.abc import Sequence

_HELD_LINES = 2
"""How many lines that are not blank a text may lose besides its last: they repeat what follows."""


class TextSoFar:
    """A text as far as it is known: what of it is `sent`, and whether it met one of its ends."""

    def __init__(self, before: str, stops: Sequence[str]) -> None:
        """`before` is what stands in front of it; the text ends before a line that leaves the block of that."""
        line = before.rpartition("\n")[2]
        indent = len(line) - len(line.lstrip(" \t"))
        leaving = [rf"\s*\n(?=[ \t]{{0,{indent - 1}}}[^\s)\]}}])"] if indent else []
        self._ends = re.compile("|".join([*map(re.escape, stops), *leaving]) or "(?!)")
        self.sent = ""
        self.is_stopped = False

    def more(self, text: str, *, is_whole: bool) -> str:
        """What `text`, a draft or the whole text, adds that is final."""
        end = self._ends.search(text)
        self.is_stopped = end is not None
        text = text[: end.start()] if end else text
        final = text if is_whole or end else _without_last_lines(text)
        more = final[len(self.sent) :] if final.startswith(self.sent) else ""
        self.sent += more
        return more


def _without_last_lines(text: str) -> str:
    """A draft without the lines that the whole text may lack."""
    lines = text.split("\n")[:-1]
    for _ in range(_HELD_LINES):
        while lines and not lines.pop().strip():
            pass
    return "".join(f"{line}\n" for line in lines)
