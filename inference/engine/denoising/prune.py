"""Drops the canvases of unlikely lengths early: many lengths are tried, few are finished (rank.py says how many).

After an eighth of the steps only a few canvases continue; until then all see only the start of the suffix. (One round
of successive halving: Jamieson and Talwalkar, 2016, https://arxiv.org/abs/1502.07943.) The likelihood tells good from
bad early and not at the end. `pin_start` drops the canvases that contradict what the user types or accepts meanwhile.
"""

from collections.abc import Sequence

from inference.engine.canvas.layout import CanvasHole, CanvasPlan, ComposedCanvas
from inference.engine.canvas.results import FilledCanvas
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.denoising.denoise import Denoiser
from inference.engine.denoising.rank import FillRanker
from inference.engine.loaded_model import LoadedModel

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


def pin_start(model: LoadedModel, loop: Denoiser, plan: CanvasPlan, hole: int, text: str) -> bool:
    """Pins `text` at the start of a hole and drops the canvases that disagree; False, and no change, if all do."""
    agreeing = [
        (index, *match)
        for index in range(loop.canvas.batch_size)
        if (match := _matched_rows(model.vocabulary, loop, index, plan.holes[hole], hole, text)) is not None
    ]
    if not agreeing:
        return False
    chosen = [index for index, _, _ in agreeing]
    canvas = loop.canvas.pin(chosen, loop.prediction_ids, hole, [rows for _, rows, _ in agreeing])
    forced_starts = [(hole, canvas_index, start) for canvas_index, (_, _, start) in enumerate(agreeing) if start]
    constraint = model.constraint_builder.build(canvas, plan.holes, forced_starts=forced_starts)
    loop.continue_with(chosen, canvas, constraint)
    return True


def _matched_rows(
    vocabulary: Vocabulary, loop: Denoiser, index: int, layout: CanvasHole, hole: int, text: str
) -> tuple[int, bytes] | None:
    """How many rows of the hole `text` covers, and its bytes that begin the next row; None if the answer disagrees."""
    rows = loop.filled_canvas(index).hole_bytes(vocabulary, hole, layout)
    remaining = b"".join(rows)[: layout.num_healed_bytes] + text.encode()
    if not b"".join(rows).startswith(remaining):
        return None
    count = 0
    while count < len(rows) and len(remaining) >= len(rows[count]):
        remaining = remaining[len(rows[count]) :]
        count += 1
    return count, remaining
