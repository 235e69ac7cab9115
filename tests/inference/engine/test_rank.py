"""Scores are exact causal likelihoods, the same in a batch as alone, and tell a good fill from a bad one."""

import torch

from inference.engine import Engine, rank
from inference.engine.prefix_cache import Lease, PrefixCache


def encoded(engine: Engine, ids: list[int]) -> Lease:
    lease = engine.tools.prefixes.acquire(ids)
    if lease.length < len(ids):
        engine.tools.network.encode(torch.tensor([ids[lease.length :]]), lease)
        lease.commit(ids[lease.length :])
    return lease


def by_hand(engine: Engine, ids: list[int], text: list[int]) -> float:
    """The same from one fresh pass over everything."""
    every = [*ids, *text]
    fresh = PrefixCache(engine.tools.network, 0).acquire(every)
    hidden = engine.tools.network.encode(torch.tensor([every]), fresh)
    log_probabilities = engine.tools.network.logits(hidden[0]).log_softmax(-1)
    rows = range(len(ids) - 1, len(every) - 1)
    return sum(float(log_probabilities[row, every[row + 1]]) for row in rows) / len(text)


def test_scores_equal_those_of_one_whole_pass(embedded: Engine, released: Engine) -> None:
    for engine in (embedded, released):
        ids = engine.tools.vocabulary.encode("def f(a, b):\n    total = a + b\n    return")
        texts = [engine.tools.vocabulary.encode(text) for text in (" total\n", " a", " b * b * b\n\n")]
        lease = encoded(engine, ids)
        found = rank.scores(engine.tools.network, lease.view(3, len(ids) - 1), ids[-1], texts)
        lease.release()
        for score, text in zip(found, texts, strict=True):
            assert abs(score - by_hand(engine, ids, text)) < 1e-3


def test_likely_code_scores_above_noise(embedded: Engine) -> None:
    ids = embedded.tools.vocabulary.encode("import os\nimport sys\n\n\ndef main():\n   ")
    texts = [embedded.tools.vocabulary.encode(text) for text in (" return None\n", " )(]qx 77 zz\n")]
    lease = encoded(embedded, ids)
    good, bad = rank.scores(embedded.tools.network, lease.view(2, len(ids) - 1), ids[-1], texts)
    lease.release()
    assert good > bad


def test_without_a_prefix_the_first_token_is_given(embedded: Engine) -> None:
    lease = embedded.tools.prefixes.acquire([])
    assert rank.scores(embedded.tools.network, lease.view(1), None, [[7]]) == [0.0]
    lease.release()
