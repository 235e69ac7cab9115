"""Many lengths are tried, few are finished: the causal likelihood tells good from bad long before the text stands.

Two rounds: of many canvases the better ones after one step, of those a few after an eighth of the steps; until then
they see only the beginning of the suffix. (Successive halving: Jamieson and Talwalkar, 2016,
https://arxiv.org/abs/1502.07943.) The likelihood judges early what it no longer can at the end: a canvas that is too
long has become fluent by then.
"""

from collections.abc import Sequence

from inference.engine import answers
from inference.engine.denoise import Denoising
from inference.engine.layout import Row
from inference.engine.plan import Plan
from inference.engine.prefix_cache import Lease
from inference.engine.toolbox import Toolbox

FIRST_KEPT = 6
"""So many go on after the first step. A checkpoint begins no more unless its `infill.json` says so: whether a big one's
first step tells good from bad, nobody has measured."""

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
    if loop.finished:
        return False
    if loop.step_number == _last_round(loop):
        return loop.canvas.batch > _finished(wanted) or _is_cut(loop, plan)
    return loop.step_number == 1 and loop.canvas.batch > max(FIRST_KEPT, wanted)


def prune(tools: Toolbox, loop: Denoising, lease: Lease, plan: Plan, wanted: int) -> None:
    """Goes on with the canvases that rank best as they stand, best first."""
    last = loop.step_number >= _last_round(loop)
    count = _finished(wanted) if last else max(FIRST_KEPT, wanted)
    best = [answer.canvas for answer in answers.ranked(tools, lease, plan, loop, quick=False)[:count]]
    suffix = plan.layout.suffix if last else plan.layout.suffix[:TRIAL_SUFFIX_TOKENS]
    loop.keep(best, loop.canvas.keep(best, suffix, plan.layout.width), lease.view(len(best)))


def _finished(wanted: int) -> int:
    return max(FINISHED, wanted)


def _last_round(loop: Denoising) -> int:
    return max(_LEAST_STEPS, loop.max_steps // _PART_OF_STEPS)


def _is_cut(loop: Denoising, plan: Plan) -> bool:
    ends = [spans[-1][2] + len(plan.layout.suffix) for spans in loop.canvas.spans]
    return loop.canvas.lengths != [min(end, plan.layout.width) for end in ends]
