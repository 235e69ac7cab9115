"""Chooses how many tokens a hole gets. The right number is unknown, and a canvas cannot grow: diffusion's weak spot.

A checkpoint with a slack token tells: on an all-noise canvas, P(slack at j) is the probability that the fill has at
most j tokens. Slack is forbidden afterwards, or it would empty the hole. Without one, most lengths of the grid are
tried, as in PILL, side by side (pruning.py), and reranked (rank.py). Computes nothing with the model, so that the
client of a remote server can use it; length_probe.py does.
"""

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from inference.engine.canvas.layout import Slots

_GRID = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192)
_FINE_GRID = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192)
"""The lengths to try without any knowledge: all of a short line's."""
_USUAL_OF_ONE_LINE, _USUAL_OF_SEVERAL = 6, 40
"""The median of the holes in `tests/data/tuning.jsonl.gz`, in tokens of either of our vocabularies."""
_LEAST_TO_RESIZE = 4
_PARTS_OF_USUAL = (0.8, 0.6, 1.2)
"""For a block: 32, 24 and 48 tokens. On tuning tasks the likeliest of these three reaches the true length's similarity;
with shorter or many more lengths beside them it is lower by a third.
"""
_FINEST = 1024
"""Read a curve down to its 1024ths. A steeper curve yields fewer lengths."""


def from_slack(curves: Sequence[Sequence[float]], holes: Sequence[Slots], count: int) -> list[tuple[int, ...]]:
    """Up to `count` choices of a length per hole, likeliest first. `curves[h][j]`: P(slack) at slot j of hole h."""
    rising = [list(itertools.accumulate(curve, max)) for curve in curves]
    nearest = [_nearest(hole, len(curve)) for hole, curve in zip(holes, curves, strict=True)]
    choices: dict[tuple[int, ...], None] = {}
    for part in _parts():
        choices.setdefault(tuple(sizes[bisect_left(curve, part)] for sizes, curve in zip(nearest, rising, strict=True)))
        if len(choices) == count:
            break
    return list(choices)


def from_grid(holes: Sequence[Slots], count: int) -> list[tuple[int, ...]]:
    """Up to `count` choices of lengths, spread evenly over a rising grid within the limits; for 1 the usual one."""
    if count == 1:
        return [usual(holes)]
    grids = [_grid(hole, _FINE_GRID) for hole in holes]
    steps = range(count)
    spread = (tuple(grid[round(i * (len(grid) - 1) / (count - 1))] for grid in grids) for i in steps)
    return list(dict.fromkeys(spread))


def to_resize(holes: Sequence[Slots], count: int) -> list[tuple[int, ...]]:
    """Up to `count` different starting lengths for a model that adds and removes rows itself.

    As DreamOn's, from four rows on: the hole's required start may occupy the first one, which then can add none.
    """
    choices = [usual(holes), *from_grid(holes, count)]
    longer = [
        tuple(max(size, min(_LEAST_TO_RESIZE, hole.maximum)) for size, hole in zip(sizes, holes, strict=True))
        for sizes in choices
    ]
    return list(dict.fromkeys(longer))[:count]


def around_usual(holes: Sequence[Slots], count: int) -> list[tuple[int, ...]]:
    """Up to `count` different length choices near the usual one. For holes of several lines without a signal."""
    return list(dict.fromkeys(usual(holes, part) for part in _PARTS_OF_USUAL[:count]))


def guessed(holes: Sequence[Slots], count: int, *, usual_first: bool) -> list[tuple[int, ...]]:
    """The lengths to try where the checkpoint gives no signal. `usual_first`: those of a line by how usual they are."""
    if not all(hole.single_line for hole in holes):
        return around_usual(holes, count)
    choices = from_grid(holes, count)
    return sorted(choices, key=lambda each: unusual(holes, each)) if usual_first else choices


def usual(holes: Sequence[Slots], part: float = 1.0) -> tuple[int, ...]:
    """The likeliest length of each hole judging only by its limits, or that part of it."""
    wanted = [_USUAL_OF_ONE_LINE if it.single_line else min(_USUAL_OF_SEVERAL, it.maximum * 2 // 3) for it in holes]
    sizes = [round(size * part) for size in wanted]
    return tuple(max(hole.minimum, min(size, hole.maximum)) for hole, size in zip(holes, sizes, strict=True))


def unusual(holes: Sequence[Slots], sizes: Sequence[int]) -> float:
    """How far these lengths are from the usual ones: the mean square of the logarithm of their ratio."""
    ratios = [max(1, size) / max(1, known) for size, known in zip(sizes, usual(holes), strict=True)]
    return sum(math.log(ratio) ** 2 for ratio in ratios) / max(1, len(ratios))


def ending(ends: Sequence[float], length: int) -> float:
    """What the `end_chances` of length_probe.py say about a length; 0 if nothing."""
    return ends[min(length, len(ends) - 1)] if ends else 0.0


def _parts() -> Iterator[float]:
    """1/2, then 1/4 and 3/4, then the odd eighths, …"""
    pieces = 2
    while pieces <= _FINEST:
        yield from (piece / pieces for piece in range(1, pieces, 2))
        pieces *= 2


def _nearest(hole: Slots, slots: int) -> list[int]:
    """For each length from 0 to `slots` the grid's nearest within the hole's limits."""
    grid = _grid(hole)
    return [min(grid, key=lambda size: max(size, slot) / max(1, min(size, slot))) for slot in range(slots + 1)]


def _grid(hole: Slots, sizes: Sequence[int] = _GRID) -> list[int]:
    inside = [size for size in sizes if hole.minimum < size < hole.maximum]
    return sorted({hole.minimum, *inside, hole.maximum})
