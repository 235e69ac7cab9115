"""Chooses which lengths of a hole to try, and how many. The right number of tokens is unknown, and a canvas cannot
grow: diffusion's weak spot.

Most lengths of a grid are tried, as in PILL, side by side (prune.py), and reranked (rank.py). Computes nothing with the
model, so that the client of a remote server can use it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from inference.engine.canvas.layout import CanvasHole
from inference.messages import MAX_CANDIDATES, Hole, InfillRequest
from inference.models.infill_config import InfillConfig

_GRID = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192)
"""The lengths to try if nothing is known: every length of a short line, and fewer of long texts."""
_USUAL_LINE, _USUAL_BLOCK = 6, 40
"""The median of the holes in `tests/data/tuning.jsonl.gz`, in tokens of either of our vocabularies."""
_MIN_RESIZABLE_ROWS = 4
_PARTS_OF_USUAL = (0.8, 0.6, 1.2)
"""For a block: 32, 24 and 48 tokens. On tuning tasks the likeliest of these three reaches the true length's similarity;
with shorter or many more lengths beside them it is lower by a third.
"""


@dataclass(frozen=True)
class DenoisingBudget:
    """The limits of one request. Without `max_steps` the checkpoint's default applies."""

    candidates: int
    max_steps: int | None

    @classmethod
    def from_request(cls, request: InfillRequest, infill_config: InfillConfig) -> "DenoisingBudget":
        candidates = min(max(1, request.candidates), MAX_CANDIDATES)
        lines = all(segment.single_line for segment in request.segments if isinstance(segment, Hole))
        max_steps = request.max_steps or (infill_config.line_steps if lines else None)
        if not request.quick:
            return cls(candidates, max_steps)
        return cls(candidates, min(infill_config.quick_steps, max_steps or infill_config.sampler.max_steps))


def grid_lengths(holes: Sequence[CanvasHole], count: int) -> list[tuple[int, ...]]:
    """Up to `count` choices of lengths, spread evenly over a rising grid within the limits; for 1 the usual one."""
    if count == 1:
        return [usual_length_per_hole(holes)]
    grids = [_grid(hole) for hole in holes]
    steps = range(count)
    spread = (tuple(grid[round(i * (len(grid) - 1) / (count - 1))] for grid in grids) for i in steps)
    return list(dict.fromkeys(spread))


def resizable_start_lengths(holes: Sequence[CanvasHole], count: int) -> list[tuple[int, ...]]:
    """Up to `count` different starting lengths for a model that adds and removes rows itself.

    None is below four rows, as DreamOn's: the hole's required start may occupy the first row, which then cannot grow.
    """
    choices = [usual_length_per_hole(holes), *grid_lengths(holes, count)]
    longer = [
        tuple(max(size, min(_MIN_RESIZABLE_ROWS, hole.max_rows)) for size, hole in zip(sizes, holes, strict=True))
        for sizes in choices
    ]
    return list(dict.fromkeys(longer))[:count]


def candidate_lengths(holes: Sequence[CanvasHole], count: int, *, usual_first: bool = False) -> list[tuple[int, ...]]:
    """Up to `count` lengths to try for a model that cannot resize. `usual_first`: the usual ones of a line first."""
    if not all(hole.single_line for hole in holes):
        return list(dict.fromkeys(usual_length_per_hole(holes, part) for part in _PARTS_OF_USUAL[:count]))
    choices = grid_lengths(holes, count)
    return sorted(choices, key=lambda sizes: length_deviation(holes, sizes)) if usual_first else choices


def usual_length_per_hole(holes: Sequence[CanvasHole], part: float = 1.0) -> tuple[int, ...]:
    """The usual length of each hole times `part`, within the hole's limits."""
    usual = [_USUAL_LINE if hole.single_line else min(_USUAL_BLOCK, hole.max_rows * 2 // 3) for hole in holes]
    sizes = [round(size * part) for size in usual]
    return tuple(max(hole.min_rows, min(size, hole.max_rows)) for hole, size in zip(holes, sizes, strict=True))


def length_deviation(holes: Sequence[CanvasHole], sizes: Sequence[int]) -> float:
    """How far these lengths are from the usual ones: the mean square of the logarithm of their ratio."""
    ratios = [max(1, size) / max(1, usual) for size, usual in zip(sizes, usual_length_per_hole(holes), strict=True)]
    return sum(math.log(ratio) ** 2 for ratio in ratios) / max(1, len(ratios))


def _grid(hole: CanvasHole) -> list[int]:
    inside = [size for size in _GRID if hole.min_rows < size < hole.max_rows]
    return sorted({hole.min_rows, *inside, hole.max_rows})
