"""Drops the canvases of unlikely lengths early: many lengths are tried, few are finished (rank.py says how many).

After an eighth of the steps only a few canvases continue; until then all see only the start of the suffix. (One round
of successive halving: Jamieson and Talwalkar, 2016, https://arxiv.org/abs/1502.07943.) The likelihood tells good from
bad early and not at the end. `pin` drops the canvases that disagree with what the user types or accepts meanwhile.
"""

from collections.abc import Sequence

from inference.engine.canvas.answered import Written
from inference.engine.canvas.layout import Plan, Row, Slots
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.loaded_model import LoadedModel
from inference.engine.search.denoise import Denoising
from inference.engine.search.rank import Ranking

_LEAST_STEPS, _PART_OF_STEPS = 4, 8
"""When to drop canvases: after this many steps, or this part of them if that is more."""

TRIAL_SUFFIX_TOKENS = 24
"""How much of the suffix a canvas sees before pruning."""


def tried(rows: Sequence[Row], finished: int, free_rows: int = 0) -> list[Row]:
    """The canvases to begin with: if some will be dropped, with a short suffix that fills the `free_rows`."""
    if len(rows) <= finished:
        return list(rows)
    free = free_rows // len(rows) - max(row.spans[-1][2] for row in rows)
    return [row.cut(max(TRIAL_SUFFIX_TOKENS, free)) for row in rows]


def is_due(loop: Denoising, plan: Plan, finished: int) -> bool:
    """Whether to drop canvases now, or to show the remaining ones the whole suffix."""
    if loop.finished or loop.step_number != max(_LEAST_STEPS, loop.max_steps // _PART_OF_STEPS):
        return False
    whole = [min(spans[-1][2] + len(plan.suffix), plan.width) for spans in loop.canvas.spans]
    return loop.canvas.batch > finished or loop.canvas.lengths != whole


def prune(
    ranking: Ranking, loop: Denoising, plan: Plan, finished: int, known: Sequence[float] | None = None
) -> list[Written]:
    """Keeps the `finished` canvases that rank best and returns their answers so far. `known`: see `Ranking.ranked`."""
    ranked = ranking.ranked(loop.standing, known=known)[:finished]
    best = [answer.number for answer in ranked]
    loop.go_on_with(best, loop.canvas.keep(best, plan.suffix, plan.width))
    return [answer.written for answer in ranked]


def pin(model: LoadedModel, loop: Denoising, plan: Plan, hole: int, text: str) -> bool:
    """Pins `text` at the start of a hole and drops the canvases that disagree; False, and no change, if all do."""
    agreeing = [
        (index, *found)
        for index in range(loop.canvas.batch)
        if (found := _agreed(model.vocabulary, loop, index, plan.holes[hole], hole, text)) is not None
    ]
    if not agreeing:
        return False
    keep = [index for index, _, _ in agreeing]
    canvas = loop.canvas.pin(keep, loop.answer, hole, [rows for _, rows, _ in agreeing])
    given = [(hole, number, rest) for number, (_, _, rest) in enumerate(agreeing) if rest]
    constraint = model.constraints.of(canvas, plan.holes, given=given)
    loop.go_on_with(keep, canvas, constraint)
    return True


def _agreed(
    vocabulary: Vocabulary, loop: Denoising, index: int, slots: Slots, hole: int, text: str
) -> tuple[int, bytes] | None:
    """How many rows of the hole `text` covers, and its bytes that begin the next row; None if the answer disagrees."""
    rows = loop.written(index).values(vocabulary, hole, slots)
    wanted = b"".join(rows)[: slots.skip] + text.encode()
    if not b"".join(rows).startswith(wanted):
        return None
    count = 0
    while count < len(rows) and len(wanted) >= len(rows[count]):
        wanted = wanted[len(rows[count]) :]
        count += 1
    return count, wanted
