"""How many tokens a hole gets. The right number is unknown, and a canvas cannot grow: the weak spot of diffusion.

A checkpoint with a slack token says it itself: on an all-noise canvas, slot j belongs to the fill while
P(slack at j) < 0.5. That curve rises smoothly, so other thresholds give the other candidate lengths. Unmasking the most
confident tokens with slack among them would empty the hole instead, because slack is one token against a spread of
others; so the length is settled first and slack then forbidden.

A checkpoint without one gets a handful of lengths, denoised side by side and reranked (rank.py), as in PILL.
"""

from collections.abc import Sequence

from inference.engine.layout import Slots

_THRESHOLDS = (0.5, 0.3, 0.7, 0.15, 0.85, 0.05, 0.95, 0.4, 0.6, 0.22, 0.78, 0.1, 0.9, 0.02, 0.98)
_GRID = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192)


def from_slack(curves: Sequence[Sequence[float]], holes: Sequence[Slots], count: int) -> list[tuple[int, ...]]:
    """Up to `count` different length choices, the likeliest first.

    `curves[h][j]` is P(slack) at slot j of hole h. Each choice has one length per hole.
    """
    choices: dict[tuple[int, ...], None] = {}
    for threshold in _THRESHOLDS:
        lengths = (_crossing(curve, threshold, hole) for curve, hole in zip(curves, holes, strict=True))
        choices.setdefault(tuple(lengths))
    return list(choices)[:count]


def from_grid(holes: Sequence[Slots], count: int) -> list[tuple[int, ...]]:
    """Up to `count` different length choices, spread evenly over a rising grid within each hole's limits."""
    grids = [_grid(hole) for hole in holes]
    steps = range(count)
    spread = (tuple(grid[round(i * (len(grid) - 1) / max(1, count - 1))] for grid in grids) for i in steps)
    return list(dict.fromkeys(spread))


def _crossing(curve: Sequence[float], threshold: float, hole: Slots) -> int:
    """The first slot at which slack is likelier than the threshold, within the hole's limits."""
    length = next((slot for slot, value in enumerate(curve) if value >= threshold), len(curve))
    return min(max(length, hole.minimum), hole.maximum)


def _grid(hole: Slots) -> list[int]:
    inside = [size for size in _GRID if hole.minimum <= size < hole.maximum]
    return [*inside, hole.maximum]
