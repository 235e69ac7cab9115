"""Many lengths are tried, few are finished: the likelihood tells good from bad long before the text stands.

After an eighth of the steps a few canvases go on; until then they see only the beginning of the suffix. (One round of
successive halving: Jamieson and Talwalkar, 2016, https://arxiv.org/abs/1502.07943.) The likelihood judges early what it
no longer can at the end: a canvas that is too long has become fluent by then.
"""

from collections.abc import Sequence

from inference.engine.canvas.layout import Row
from inference.engine.canvas.plan import Plan
from inference.engine.loaded_model import LoadedModel
from inference.engine.search import answers
from inference.engine.search.denoise import Denoising
from inference.models.family import Context

_LEAST_STEPS, _PART_OF_STEPS = 4, 8
"""When it is settled what is finished. A checkpoint that takes more steps gets more."""

FINISHED = 2
"""So many are finished, or as many as candidates are wanted."""

TRIAL_SUFFIX_TOKENS = 24
"""How much of the suffix a canvas sees before it is known whether it will be finished."""


def tried(rows: Sequence[Row], wanted: int) -> list[Row]:
    """The canvases to begin with: with a short suffix, where not all of them will be finished."""
    return [row.cut(TRIAL_SUFFIX_TOKENS) for row in rows] if len(rows) > _finished(wanted) else list(rows)


def is_due(loop: Denoising, plan: Plan, wanted: int) -> bool:
    """Whether it is time to drop canvases, or to show those that are left the whole suffix."""
    if loop.finished or loop.step_number != max(_LEAST_STEPS, loop.max_steps // _PART_OF_STEPS):
        return False
    return loop.canvas.batch > _finished(wanted) or _is_cut(loop, plan)


def prune(model: LoadedModel, loop: Denoising, context: Context, plan: Plan, wanted: int) -> None:
    """Goes on with the canvases that rank best as they stand, best first."""
    ranked = answers.ranked(model, context, plan, answers.standing(loop), quick=False)
    best = [answer.number for answer in ranked[: _finished(wanted)]]
    loop.go_on_with(best, loop.canvas.keep(best, plan.layout.suffix, plan.layout.width))


def _finished(wanted: int) -> int:
    return max(FINISHED, wanted)


def _is_cut(loop: Denoising, plan: Plan) -> bool:
    ends = [spans[-1][2] + len(plan.layout.suffix) for spans in loop.canvas.spans]
    return loop.canvas.lengths != [min(end, plan.layout.width) for end in ends]
