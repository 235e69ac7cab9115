"""Which part of a text is most like another: by the identifiers that both have, as Jaccard counts them.

No syntax, no model: a window over lines is a set of identifiers, and what two sets have in common is divided by what
they have together.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

WINDOW_LINES = 40
STEP_LINES = 20
LEAST_LIKENESS = 0.08
"""Less is chance: two files of one language share its keywords."""
_IDENTIFIER = re.compile(r"[^\W\d]\w{2,}")
_MAX_LINE = 1_000
"""A window with a longer line is data, or minified."""


@dataclass(frozen=True)
class Window:
    """Some lines of a text, and the identifiers in them."""

    text: str
    identifiers: frozenset[str]


def identifiers(text: str) -> frozenset[str]:
    """The different identifiers of three characters or more."""
    return frozenset(_IDENTIFIER.findall(text))


def windows(text: str) -> Iterator[Window]:
    """Overlapping windows over all of a text."""
    lines = text.splitlines(keepends=True)
    for start in range(0, max(1, len(lines) - STEP_LINES), STEP_LINES):
        part = lines[start : start + WINDOW_LINES]
        if all(len(line) <= _MAX_LINE for line in part):
            joined = "".join(part)
            yield Window(joined, identifiers(joined))


def around(text: str, line: int) -> frozenset[str]:
    """The identifiers around a line (from 0).

    The lines are cut at multiples of `STEP_LINES`, so that what is most like them stays the same from key to key, and
    with it the prompt: one that changes at its start is read by the model from its start.
    """
    start = max(0, line // STEP_LINES - 1) * STEP_LINES
    return identifiers("".join(text.splitlines(keepends=True)[start : start + WINDOW_LINES]))


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """From 0, nothing in common, to 1, the same identifiers."""
    together = len(one | other)
    return len(one & other) / together if together else 0.0


def most_like(wanted: frozenset[str], among: tuple[Window, ...]) -> Window | None:
    """The window that is most like what is wanted; None where none is more alike than by chance."""
    scored = [(likeness(wanted, window.identifiers), window) for window in among]
    best = max(scored, key=lambda pair: pair[0], default=None)
    return best[1] if best and best[0] >= LEAST_LIKENESS else None
