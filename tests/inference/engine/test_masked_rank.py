"""Scores a masked model's fills by masking them again: the chain rule, in the module's order."""

import math
from collections.abc import Sequence

import pytest
import torch

from inference.engine import Engine
from inference.engine.canvas.fills import Written
from inference.engine.canvas.plan import Plan
from inference.engine.search import length, rank
from inference.engine.search.rank import ScoreWeights
from inference.messages import Hole, Text
from inference.models.family import Context
from tests.inference.engine.bigram_family import MASK_ID, BigramFamily
from tests.inference.loaded import planned

CODE = "x = area(width, height)\n" * 20
WEIGHTS = ScoreWeights(smoothing=0.0, suffix=2.0, suffix_tokens=3, unusual=0.5)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(BigramFamily(CODE))


def written(engine: Engine, plan: Plan, *fills: str) -> Written:
    """A canvas with these texts in its holes; the token that healing moved into a hole begins it."""
    encoded = [engine.loaded.vocabulary.encode(text) for text in fills]
    row = plan.layout.compose([len(each) for each in encoded])
    ids = list(row.ids)
    for (_, first, end), each in zip(row.spans, encoded, strict=True):
        ids[first:end] = each
    return Written(ids, [1.0] * len(ids), row.spans, 1)


def scores(engine: Engine, plan: Plan, several: Sequence[Written], parts: int) -> tuple[list[float], int]:
    context, passes = engine.loaded.family.open(plan.prefix_ids), 0
    scoring = rank.masked_scores(engine.loaded, context, plan, several, WEIGHTS, parts)
    while True:
        try:
            next(scoring)
        except StopIteration as end:
            context.close()
            return end.value, passes
        passes += 1


def by_hand(context: Context, one: Written, order: Sequence[Sequence[int]]) -> list[float]:
    found = []
    for number, part in enumerate(order):
        ids = torch.tensor([one.ids])
        ids[0, [row for later in order[number:] for row in later]] = MASK_ID
        logits = context.predict(ids, torch.tensor(part)).log_softmax(-1)
        found.append([float(logits[place, one.ids[row]]) for place, row in enumerate(part)])
    return [sum(each) for each in found]


def test_a_score_is_the_chain_rule_of_a_fill_and_what_follows_it(engine: Engine) -> None:
    """In a batch with others as alone: four tokens in two parts, then three tokens behind the hole."""
    plan = planned(engine, Text("x = area(wi"), Hole(single_line=True), Text(", height)\n"))
    several = [written(engine, plan, text) for text in ("dth", "dthwidth", "d")]
    found, passes = scores(engine, plan, several, 2)
    assert passes == 3
    context = engine.loaded.family.open(plan.prefix_ids)
    for score, one in zip(found, several, strict=True):
        ((_, first, end),) = one.spans
        middle = first + (end - first) // 2
        parts = [list(range(first, middle)), list(range(middle, end)), list(range(end, end + 3))]
        sums = by_hand(context, one, [part for part in parts if part])
        mean = (sum(sums[:-1]) / (end - first) + 2 * sums[-1] / 3) / 3
        assert score == pytest.approx(mean - 0.5 * length.unusual(plan.layout.holes, [end - first]), abs=1e-5)
    context.close()


def test_of_several_holes_what_follows_each_counts(engine: Engine) -> None:
    line = Hole(single_line=True)
    plan = planned(engine, Text("x = ar"), line, Text("(width, he"), line, Text(")\n"))
    good, bad = written(engine, plan, "ea", "ight"), written(engine, plan, "width", "ight")
    (first, second), passes = scores(engine, plan, [good, bad], 4)
    assert passes == 5
    assert first > second


def test_at_the_end_of_a_file_the_fill_alone_is_scored(engine: Engine) -> None:
    plan = planned(engine, Text("x = area(wi"), Hole(single_line=True))
    found, _ = scores(engine, plan, [written(engine, plan, text) for text in ("dth", "")], 4)
    assert all(map(math.isfinite, found))
