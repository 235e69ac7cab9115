"""How fills are ranked: exact causal likelihoods, those of a masked model by the chain rule, and where a hole ends."""

import math
from collections.abc import Sequence
from contextlib import closing

import pytest
import torch

from inference.engine import Engine
from inference.engine.canvas.answered import Written
from inference.engine.canvas.layout import Plan
from inference.engine.search import length, rank
from inference.engine.search.rank import Ranking, ScoreWeights
from inference.messages import Hole, Text
from inference.models.family import Context
from tests.inference.engine.bigram_family import MASK_ID, BigramFamily
from tests.inference.loaded import causal_logits, gemma, opened, planned

LINE = ScoreWeights(smoothing=3.0, suffix=2.0, suffix_tokens=8)


def by_hand(engine: Engine, ids: list[int], parts: tuple[list[int], list[int]], weights: ScoreWeights) -> float:
    every = [*ids, *parts[0], *parts[1]]
    log_probabilities = causal_logits(gemma(engine).network, every).log_softmax(-1)
    each = [float(log_probabilities[row, every[row + 1]]) for row in range(len(ids) - 1, len(every) - 1)]
    fill, suffix = each[: len(parts[0])], each[len(parts[0]) :]
    inside = sum(fill) / (len(fill) + weights.smoothing)
    score = (inside + weights.suffix * sum(suffix) / len(suffix)) / (1 + weights.suffix) if suffix else inside
    return score + weights.length * math.log(len(fill))


def test_scores_equal_those_of_one_whole_pass(embedded: Engine, released: Engine) -> None:
    for engine in (embedded, released):
        ids = engine.loaded.vocabulary.encode("def f(a, b):\n    total = a + b\n    return")
        encode = engine.loaded.vocabulary.encode
        texts = [(" total", "\n"), (" a", ""), (" max(a", ", b)\n"), (" b * b\n    b *= b", "\n\nprint(1)")]
        candidates = [(encode(fill), encode(suffix)) for fill, suffix in texts]
        for weights in (LINE, ScoreWeights(3.0, 4.0, 16, length=0.15), rank.SEVERAL_LINES):
            with opened(engine, ids) as context:
                found = rank.likelihoods(context, candidates, weights)
            for score, parts in zip(found, candidates, strict=True):
                assert abs(score - by_hand(engine, ids, parts, weights)) < 1e-3


def test_without_a_prefix_the_first_token_is_given(embedded: Engine) -> None:
    with opened(embedded, []) as context:
        assert rank.likelihoods(context, [([7], [])], rank.SEVERAL_LINES) == [0.0]


def test_of_a_model_that_cannot_score_the_surer_fill_ranks_first() -> None:
    """Only the tokens it chose count, not those that were given or stand behind the hole."""
    sure, unsure = (Written([5, 6, 7, 8], [1.0, 1.0, chance, 1.0], [(1, 2, 3)], 1) for chance in (0.9, 0.2))
    assert sure.log_confidence > unsure.log_confidence
    assert Written([5], [1.0], [(0, 1, 1)], 1).log_confidence == 0.0


CODE = "x = area(width, height)\n" * 20
WEIGHTS = ScoreWeights(smoothing=0.0, suffix=2.0, suffix_tokens=3, unusual=0.5)


@pytest.fixture(scope="module")
def bigrams() -> Engine:
    return Engine(BigramFamily(CODE))


def written(bigrams: Engine, plan: Plan, *fills: str) -> Written:
    """A canvas with these texts in its holes; the token that healing moved into a hole begins it."""
    encoded = [bigrams.loaded.vocabulary.encode(text) for text in fills]
    row = plan.compose([len(each) for each in encoded])
    ids = list(row.ids)
    for (_, first, end), each in zip(row.spans, encoded, strict=True):
        ids[first:end] = each
    return Written(ids, [1.0] * len(ids), row.spans, 1)


def scores(bigrams: Engine, plan: Plan, several: Sequence[Written], parts: int) -> tuple[list[float], int]:
    found: list[float] = []
    with closing(bigrams.loaded.family.open(plan.prefix_ids)) as context:
        ranking = Ranking(bigrams.loaded, context, plan)
        ranking.weights = WEIGHTS
        passes = len(list(ranking.score_by_masking(several, found, parts)))
    return found, passes


def masked_by_hand(context: Context, one: Written, order: Sequence[Sequence[int]]) -> list[float]:
    found = []
    for number, part in enumerate(order):
        ids = torch.tensor([one.ids])
        ids[0, [row for later in order[number:] for row in later]] = MASK_ID
        logits = context.predict(ids, torch.tensor(part)).log_softmax(-1)
        found.append([float(logits[place, one.ids[row]]) for place, row in enumerate(part)])
    return [sum(each) for each in found]


def test_a_score_is_the_chain_rule_of_a_fill_and_what_follows_it(bigrams: Engine) -> None:
    """In a batch with others as alone: four tokens in two parts, then three tokens behind the hole."""
    plan = planned(bigrams, Text("x = area(wi"), Hole(single_line=True), Text(", height)\n"))
    several = [written(bigrams, plan, text) for text in ("dth", "dthwidth", "d")]
    found, passes = scores(bigrams, plan, several, 2)
    assert passes == 3
    context = bigrams.loaded.family.open(plan.prefix_ids)
    for score, one in zip(found, several, strict=True):
        ((_, first, end),) = one.spans
        middle = first + (end - first) // 2
        parts = [list(range(first, middle)), list(range(middle, end)), list(range(end, end + 3))]
        sums = masked_by_hand(context, one, [part for part in parts if part])
        mean = (sum(sums[:-1]) / (end - first) + 2 * sums[-1] / 3) / 3
        assert score == pytest.approx(mean - 0.5 * length.unusual(plan.holes, [end - first]), abs=1e-5)
    context.close()


def test_of_several_holes_what_follows_each_counts(bigrams: Engine) -> None:
    line = Hole(single_line=True)
    plan = planned(bigrams, Text("x = ar"), line, Text("(width, he"), line, Text(")\n"))
    good, bad = written(bigrams, plan, "ea", "ight"), written(bigrams, plan, "width", "ight")
    (first, second), passes = scores(bigrams, plan, [good, bad], 4)
    assert passes == 5
    assert first > second


def test_at_the_end_of_a_file_the_fill_alone_is_scored(bigrams: Engine) -> None:
    plan = planned(bigrams, Text("x = area(wi"), Hole(single_line=True))
    found, _ = scores(bigrams, plan, [written(bigrams, plan, text) for text in ("dth", "")], 4)
    assert all(map(math.isfinite, found))


def ends(bigrams: Engine, *segments: Text | Hole) -> list[float]:
    plan = planned(bigrams, *segments)
    with_context = bigrams.loaded.family.open(plan.prefix_ids)
    chances = Ranking(bigrams.loaded, with_context, plan).end_chances()
    with_context.close()
    return chances


def test_every_length_that_a_hole_may_have_gets_its_share(bigrams: Engine) -> None:
    chances = ends(bigrams, Text("x = area(wi"), Hole(single_line=True, max_tokens=6), Text(", height)\n"))
    assert len(chances) == 7
    assert sum(map(math.exp, chances)) == pytest.approx(1)


def test_what_follows_begins_where_it_is_likely(bigrams: Engine) -> None:
    """Behind an `a` stands `(` or `r`, never the end of a line; of the rows after it these counts know nothing."""
    hole = Hole(single_line=True, max_tokens=6)
    likely, unlikely = (ends(bigrams, Text("x = ar"), hole, Text(text)) for text in ("(", "\n"))
    assert likely[0] == max(likely) > max(likely[1:])
    assert unlikely[0] == min(unlikely) < min(unlikely[1:])


def test_nothing_is_asked_where_nothing_is_open(bigrams: Engine) -> None:
    assert ends(bigrams, Text("x = a"), Hole(min_tokens=3, max_tokens=3), Text("\n")) == []
    assert ends(bigrams, Text("x = "), Hole(max_tokens=4), Text(" + "), Hole(max_tokens=4), Text("\n")) == []
