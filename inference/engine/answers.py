"""What a batch of denoised canvases says: its different answers, best first, and how one of them looks half done."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference.engine import fill, rank
from inference.engine.denoise import Denoising
from inference.engine.plan import Plan
from inference.engine.prefix_cache import Lease
from inference.engine.toolbox import Toolbox
from inference.engine.vocabulary import Vocabulary
from inference.messages import Draft


@dataclass(frozen=True)
class Answer:
    """One candidate for the holes of one canvas."""

    texts: tuple[str, ...]
    score: float
    steps: int
    tokens: int
    canvas: int
    """Its number in the batch."""
    confidence: float = 1.0
    """The mean probability of the tokens that were not given."""


def ranked(tools: Toolbox, lease: Lease, plan: Plan, loop: Denoising, *, quick: bool) -> list[Answer]:
    """The different answers of a canvas, best first; last those with half a character, then those with an empty hole.

    `quick`: where there is only one, it is not scored.
    """
    count = loop.canvas.batch
    found = [0.0] * count if count == 1 and quick else _scores(tools, lease, plan, loop)
    best: dict[tuple[str, ...], Answer] = {}
    for index in sorted(range(count), key=lambda i: -found[i]):
        answer = _answer(tools.vocabulary, plan, loop, index, found[index])
        best.setdefault(answer.texts, answer)
    return sorted(best.values(), key=_flaws)


def _flaws(answer: Answer) -> tuple[bool, bool]:
    return not all(answer.texts), any("\ufffd" in text for text in answer.texts)


def _answer(vocabulary: Vocabulary, plan: Plan, loop: Denoising, index: int, score: float) -> Answer:
    spans = loop.canvas.spans[index]
    given = fill.texts(vocabulary, loop.answer[index].tolist(), spans, plan.layout.holes)
    confidence = fill.confidence(loop.row_confidences[index].tolist(), spans)
    return Answer(given.texts, score, int(loop.steps[index]), given.tokens, index, confidence)


def _scores(tools: Toolbox, lease: Lease, plan: Plan, loop: Denoising) -> list[float]:
    last = plan.prefix_ids[-1] if plan.prefix_ids else None
    prefix = lease.view(loop.canvas.batch, max(0, lease.length - 1))
    judged, is_line = [], all(hole.single_line for hole in plan.layout.holes)
    for row, spans, length in zip(loop.answer.tolist(), loop.canvas.spans, loop.canvas.lengths, strict=True):
        end = spans[-1][2]
        judged.append(rank.Judged(row[:end], row[end : min(end + rank.SUFFIX_TOKENS, length)], is_line))
    return rank.scores(tools.network, prefix, last, judged)


def draft(
    request_id: str, vocabulary: Vocabulary, loop: Denoising, plan: Plan, fills: Sequence[str], index: int, holes: int
) -> Draft:
    """One of the canvases as it stands; of the request's `holes`, earlier ones as filled, later ones still empty."""
    ids, sure = loop.answer[index].tolist(), loop.row_confidences[index].tolist()
    shown = [
        fill.pieces(vocabulary, ids, sure, span, hole)
        for span, hole in zip(loop.canvas.spans[index], plan.layout.holes, strict=True)
    ]
    before = [((text,), (1.0,)) for text in fills]
    after: list[tuple[tuple[str, ...], tuple[float, ...]]] = [((), ())]
    parts = [*before, *shown, *after * (holes - plan.group.end)]
    return Draft(
        request_id,
        loop.step_number,
        loop.max_steps,
        tuple(texts for texts, _ in parts),
        tuple(numbers for _, numbers in parts),
    )
