"""Small changes like one that was made: what the model is asked to judge after it. Knows no model."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from inference.engine.next_edit.adding import added
from inference.engine.next_edit.replacing import replaced
from inference.engine.next_edit.tokens import Proposal, code
from inference.messages import Hunk

_REACH_LINES = 300
"""How far from a change it is looked for what is like it: that takes time, and nobody waits for it."""


def proposals(lines: Sequence[str], hunk: Hunk) -> Iterator[Proposal]:
    """What could be changed near a change as it was there. Nothing follows from a change of a comment."""
    first = max(0, hunk.line - _REACH_LINES)
    near, moved = lines[first : hunk.line + _REACH_LINES], Hunk(hunk.line - first, hunk.old, hunk.new)
    if code(hunk.old) != code(hunk.new):
        for one in chain(replaced(near, moved), added(near, moved)):
            if code(one.text) != code(one.now):
                yield replace(one, line=one.line + first, end=one.end + first)


def best(found: Iterable[Proposal], hunks: Sequence[Hunk]) -> list[Proposal]:
    """Each proposal once, the most alike first. A line that was changed already is left alone."""
    taken = {line for hunk in hunks for line in range(hunk.line, hunk.line + hunk.new.count("\n"))}
    kept: dict[tuple[int, int, str], Proposal] = {}
    for one in found:
        if taken.isdisjoint(range(one.line, one.end)):
            known = kept.setdefault((one.line, one.end, one.text), one)
            if known.likeness < one.likeness:
                kept[one.line, one.end, one.text] = one
    return sorted(kept.values(), key=lambda one: -one.likeness)
