"""Texts in which «old→new» is the user's change, and ⟦old→new⟧ the expected offer."""

import re
from collections.abc import Sequence

_MARK = re.compile(r"«(?P<old>[^«»→]*)→(?P<new>[^«»→]*)»|⟦(?P<left>[^⟦⟧]*)→[^⟦⟧]*⟧", re.DOTALL)


def read(drawing: str) -> tuple[str, str, list[tuple[int, str]]]:
    """The text before the change, the text after it, and each change: where it ends there, and how it is drawn."""
    old = new = ""
    changed, at = [], 0
    for mark in _MARK.finditer(drawing):
        between = drawing[at : mark.start()]
        same = mark["left"] or ""
        old, new = old + between + (mark["old"] or same), new + between + (mark["new"] or same)
        if mark["left"] is None:
            changed.append((len(new) - len(mark["new"]), mark[0]))
        at = mark.end()
    return old + drawing[at:], new + drawing[at:], changed


def drawn(new: str, changed: Sequence[tuple[int, str]], offered: Sequence[tuple[int, int, str]]) -> str:
    """The present text with the changes in it as they were drawn, and the offers, in order."""
    offers = {(start, end): text for start, end, text in offered}
    marks = [(start, start + len(mark[1:-1].partition("→")[2]), mark) for start, mark in changed]
    marks += [(start, end, f"⟦{new[start:end]}→{text}⟧") for (start, end), text in offers.items()]
    for start, end, mark in sorted(marks, reverse=True):
        new = f"{new[:start]}{mark}{new[end:]}"
    return new
