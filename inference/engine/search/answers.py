"""Ranks the different answers for the holes of one canvas."""

from collections.abc import Sequence

from inference.engine.canvas import answered
from inference.engine.canvas.answered import RankedFill
from inference.engine.canvas.fills import Written
from inference.engine.canvas.plan import Plan
from inference.engine.loaded_model import LoadedModel
from inference.engine.search import policy, rank
from inference.engine.search.denoise import Denoising
from inference.models.family import Context

_LINE_ENDS = (b"\n", b"\r")


def standing(loop: Denoising) -> list[Written]:
    """The current state of the canvases of a batch."""
    return [one_standing(loop, index) for index in range(loop.canvas.batch)]


def one_standing(loop: Denoising, index: int) -> Written:
    """One of them."""
    length = loop.canvas.lengths[index]
    ids, sure = loop.answer[index, :length].tolist(), loop.row_confidences[index, :length].tolist()
    return Written(ids, sure, loop.canvas.spans[index], int(loop.steps[index]))


def ranked(
    model: LoadedModel,
    context: Context,
    plan: Plan,
    written: Sequence[Written],
    typed: float = 0.0,
    *,
    quick: bool,
    known: Sequence[float] | None = None,
) -> list[RankedFill]:
    """The different answers of a canvas, best first; last those with half a character, then those with an empty hole.

    `typed`: the log-probability of the first hole's required start, which all of them have. `quick`: skips scoring a
    single answer. `known`: their scores, if already computed.
    """
    count = len(written)
    found = known or ([0.0] * count if count == 1 and quick else scores(model, context, plan, written, typed))
    return answered.ranked(model.vocabulary, plan.layout.holes, written, found)


def scores(
    model: LoadedModel, context: Context, plan: Plan, written: Sequence[Written], typed: float = 0.0
) -> list[float]:
    """The score of each, higher is better; if the model cannot score, its confidence in its tokens."""
    if not model.traits.can_score:
        return [rank.by_confidence(one) for one in written]
    judged, weights = [], weights_for(model, plan)
    for one in written:
        end = one.spans[-1][2]
        judged.append(rank.Judged(one.ids[:end], one.ids[end : end + weights.suffix_tokens], weights, typed))
    return rank.scores(context, judged, plan.prefix_ids, plan.file_text)


def weights_for(model: LoadedModel, plan: Plan) -> rank.ScoreWeights:
    """How to weigh a canvas's answers: depends on whether its holes are single-line, and whether the line continues."""
    known = policy.of(model.traits)
    if not all(hole.single_line for hole in plan.layout.holes):
        return known.several_lines
    following = model.vocabulary.bytes_of(list(plan.layout.suffix[:1]))
    return known.part_of_line if following and not following.startswith(_LINE_ENDS) else known.rest_of_line
