"""Detects a fill that repeats itself, which a model produces when it knows nothing: `elseelseelseelse`.

None of 1,200 true fills of tuning files counts as one. It knows no language: a repetition contains a letter, or a
character that seldom draws lines. Lists (`None, None`), tags, escapes and successive ends of blocks may repeat.
"""

import re
from collections.abc import Sequence

from inference.ending import has_letter

_IN_A_LINE = re.compile(r"(.{2,99}?)\1{3,}")
"""Four repetitions, of two characters or more."""

_SIGNS = re.compile(r"([^\s\w\-=#*.~+])\1{7,}")

_LISTED = ",;\\<>%?"
"""Characters of lists, tags, escapes and placeholders, which may well repeat four times."""

_MAX_PERIOD_LINES = 8
"""The most lines in a block that repeats three times in a row."""


def is_repetitive(text: str) -> bool:
    lines = [line.rstrip() for line in text.split("\n")]
    return any(map(_within, lines)) or any(_lines(lines, period) for period in range(1, _MAX_PERIOD_LINES + 1))


def _within(line: str) -> bool:
    units = (match[1] for match in _IN_A_LINE.finditer(line))
    odd = (unit for unit in units if not any(sign in unit for sign in _LISTED) and len(set(unit)) > 1)
    return any(map(has_letter, odd)) or _SIGNS.search(line) is not None


def _lines(lines: Sequence[str], period: int) -> bool:
    for start in range(len(lines) - 3 * period + 1):
        first, second, third = (lines[start + period * turn :][:period] for turn in range(3))
        if first == second == third and any(map(has_letter, first)):
            return True
    return False
