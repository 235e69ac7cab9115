"""Finds the part of a text most similar to another, by the identifiers they share (Jaccard similarity)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

WINDOW_LINES = 40
STEP_LINES = 20
LEAST_LIKENESS = 0.08
"""Less is chance: any two files of one language share its keywords."""
_IDENTIFIER = re.compile(r"[^\W\d]\w{2,}")
_MAX_LINE_CHARACTERS = 1_000
"""A window with a longer line is data, or minified."""


@dataclass(frozen=True)
class LineWindow:
    """Some lines of a text, and the identifiers in them."""

    text: str
    identifiers: frozenset[str]


def identifiers(text: str) -> frozenset[str]:
    """The different identifiers of three characters or more."""
    return frozenset(_IDENTIFIER.findall(text))


def windows(text: str) -> Iterator[LineWindow]:
    """Overlapping windows over all of a text."""
    lines = text.splitlines(keepends=True)
    for start in range(0, max(1, len(lines) - STEP_LINES), STEP_LINES):
        part = lines[start : start + WINDOW_LINES]
        if all(len(line) <= _MAX_LINE_CHARACTERS for line in part):
            joined = "".join(part)
            yield LineWindow(joined, identifiers(joined))


def identifiers_around(text: str, line: int) -> frozenset[str]:
    """The identifiers around a line (from 0), by steps, so that the prompt stays the same between keystrokes."""
    start = max(0, line // STEP_LINES - 1) * STEP_LINES
    return identifiers("".join(text.splitlines(keepends=True)[start : start + WINDOW_LINES]))


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """From 0 (nothing in common) to 1 (the same identifiers)."""
    together = len(one | other)
    return len(one & other) / together if together else 0.0


def most_like(wanted: frozenset[str], among: tuple[LineWindow, ...]) -> LineWindow | None:
    """The window most similar to `wanted`; None if no similarity exceeds chance."""
    scored = [(likeness(wanted, window.identifiers), window) for window in among]
    best = max(scored, key=lambda pair: pair[0], default=None)
    return best[1] if best and best[0] >= LEAST_LIKENESS else None
