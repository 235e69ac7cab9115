"""Scores are exact causal likelihoods, the same in a batch as alone, and distinguish a good fill from a bad one."""

import math

from inference.engine import Engine
from inference.engine.canvas.fills import Written
from inference.engine.search import rank
from tests.inference.loaded import causal_logits, gemma, opened

LINE = rank.ScoreWeights(smoothing=3.0, suffix=2.0, suffix_tokens=8)


def by_hand(engine: Engine, ids: list[int], parts: tuple[list[int], list[int]], weights: rank.ScoreWeights) -> float:
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
        for weights in (LINE, rank.ScoreWeights(3.0, 4.0, 16, length=0.15), rank.SEVERAL_LINES):
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
