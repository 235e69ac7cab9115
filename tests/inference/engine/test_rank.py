"""Scores are exact causal likelihoods, the same in a batch as alone, and tell a good fill from a bad one."""

import torch

from inference.engine import Engine
from inference.engine.search import rank
from inference.engine.search.rank import Judged
from inference.models.diffusion_gemma.prefix_cache import Lease, PrefixCache


def encoded(engine: Engine, ids: list[int]) -> Lease:
    lease = engine.tools.prefixes.acquire(ids)
    if lease.length < len(ids):
        engine.tools.network.encode(torch.tensor([ids[lease.length :]]), lease)
        lease.commit(ids[lease.length :])
    return lease


def by_hand(engine: Engine, ids: list[int], judged: Judged) -> float:
    """The same from one fresh pass over everything."""
    every = [*ids, *judged.fill, *judged.suffix]
    fresh = PrefixCache(engine.tools.network, 0).acquire(every)
    hidden = engine.tools.network.encode(torch.tensor([every]), fresh)
    log_probabilities = engine.tools.network.logits(hidden[0]).log_softmax(-1)
    each = [float(log_probabilities[row, every[row + 1]]) for row in range(len(ids) - 1, len(every) - 1)]
    fill, suffix = each[: len(judged.fill)], each[len(judged.fill) :]
    smoothing, weight = judged.weights
    inside = sum(fill) / (len(fill) + smoothing)
    return (inside + weight * sum(suffix) / len(suffix)) / (1 + weight) if suffix else inside


def test_scores_equal_those_of_one_whole_pass(embedded: Engine, released: Engine) -> None:
    for engine in (embedded, released):
        ids = engine.tools.vocabulary.encode("def f(a, b):\n    total = a + b\n    return")
        encode = engine.tools.vocabulary.encode
        texts = [
            (" total", "\n", rank.REST_OF_LINE),
            (" a", "", rank.REST_OF_LINE),
            (" max(a", ", b)\n", rank.PART_OF_LINE),
            (" b * b\n    b *= b", "\n\nprint(1)", rank.SEVERAL_LINES),
        ]
        candidates = [Judged(encode(fill), encode(suffix), weights) for fill, suffix, weights in texts]
        lease = encoded(engine, ids)
        found = rank.scores(engine.tools.network, lease.view(4, len(ids) - 1), ids[-1], candidates)
        lease.release()
        for score, judged in zip(found, candidates, strict=True):
            assert abs(score - by_hand(engine, ids, judged)) < 1e-3


def test_likely_code_scores_above_noise(embedded: Engine) -> None:
    ids = embedded.tools.vocabulary.encode("import os\nimport sys\n\n\ndef main():\n   ")
    encode = embedded.tools.vocabulary.encode
    candidates = [Judged(encode(text), encode("\n"), rank.REST_OF_LINE) for text in (" return None", " )(]qx 77 zz")]
    lease = encoded(embedded, ids)
    good, bad = rank.scores(embedded.tools.network, lease.view(2, len(ids) - 1), ids[-1], candidates)
    lease.release()
    assert good > bad


def test_without_a_prefix_the_first_token_is_given(embedded: Engine) -> None:
    lease = embedded.tools.prefixes.acquire([])
    assert rank.scores(embedded.tools.network, lease.view(1), None, [Judged([7], [], rank.SEVERAL_LINES)]) == [0.0]
    lease.release()
