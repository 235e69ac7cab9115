"""Drops the canvases of unlikely lengths early: many lengths are tried, few are finished (rank.py says how many).

After an eighth of the steps only a few canvases continue; until then all see only the start of the suffix. (One round
of successive halving: Jamieson and Talwalkar, 2016, https://arxiv.org/abs/1502.07943.) The likelihood tells good from
bad early and not at the end.
"""

from collections.abc import Sequence

from inference.engine.canvas.layout import CanvasPlan, ComposedCanvas
from inference.engine.canvas.results import FilledCanvas
from inference.engine.denoising.denoise import Denoiser
from inference.engine.denoising.rank import FillRanker

_MIN_STEPS, _STEPS_DIVISOR = 4, 8
"""When to drop canvases: after this many steps, or one in `_STEPS_DIVISOR` of them if that is more."""

TRIAL_SUFFIX_TOKENS = 24
"""How much of the suffix a canvas sees before pruning."""


def trial_canvases(rows: Sequence[ComposedCanvas], num_finished: int, free_rows: int = 0) -> list[ComposedCanvas]:
    """The canvases to begin with: if some will be dropped, with a short suffix that fills the `free_rows`."""
    if len(rows) <= num_finished:
        return list(rows)
    free = free_rows // len(rows) - max(row.spans[-1][2] for row in rows)
    return [row.with_suffix_cut(max(TRIAL_SUFFIX_TOKENS, free)) for row in rows]


def is_pruning_due(loop: Denoiser, plan: CanvasPlan, num_finished: int) -> bool:
    """Whether to drop canvases now, or to show the remaining ones the whole suffix."""
    if loop.is_finished or loop.step_number != max(_MIN_STEPS, loop.max_steps // _STEPS_DIVISOR):
        return False
    whole = [min(spans[-1][2] + len(plan.suffix), plan.width) for spans in loop.canvas.spans]
    return loop.canvas.batch_size > num_finished or loop.canvas.lengths != whole


def prune(
    ranker: FillRanker, loop: Denoiser, plan: CanvasPlan, num_finished: int, scores: Sequence[float] | None = None
) -> list[FilledCanvas]:
    """Keeps the `num_finished` canvases that rank best; returns them as filled now. `scores`: see `FillRanker.rank`."""
    ranked = ranker.rank(loop.filled_canvases, scores=scores)[:num_finished]
    best = [fill.index for fill in ranked]
    loop.continue_with(best, loop.canvas.select(best, plan.suffix, plan.width))
    return [fill.canvas for fill in ranked]
