"""Which candidate is best: the exact causal likelihood of its fill and of the first tokens that follow it.

The encoder is causal and shares its weights and lm_head with the decoder, so one extra pass over all candidates scores
them as a left-to-right model would (the reranking of PILL, with exact instead of estimated probabilities).

The suffix has a mean of its own, because in one mean over both it would weigh the less, the longer the fill. The sum
over a line is divided by a little more than its length: with the plain mean a line that repeats itself wins by the many
easy tokens at its end. (The length penalty of Wu et al., 2016, https://arxiv.org/abs/1609.08144, with alpha 1.) The
numbers were chosen on holes of tuning files, together with when fills are dropped (pruning.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from inference.models.diffusion_gemma.network import Network, PrefixView
from inference.models.diffusion_gemma.prefix_cache import Branches

SUFFIX_TOKENS = 16
"""How many tokens behind the last hole count; a fill that does not lead on to them is a bad fill."""


class Weights(NamedTuple):
    """What is added to the number of a fill's tokens, and how much its suffix weighs beside it."""

    smoothing: float
    suffix: float


REST_OF_LINE = Weights(smoothing=3.0, suffix=2.0)
PART_OF_LINE = Weights(smoothing=3.0, suffix=4.0)
"""The line goes on behind the fill, and what follows depends more on it."""
SEVERAL_LINES = Weights(smoothing=0.0, suffix=4.0)


@dataclass(frozen=True)
class Judged:
    """The tokens of one candidate from the first hole to the end of the last, and the pinned ones that follow."""

    fill: Sequence[int]
    suffix: Sequence[int]
    weights: Weights


@torch.inference_mode()
def scores(network: Network, prefix: PrefixView, last_id: int | None, candidates: Sequence[Judged]) -> list[float]:
    """The mean log-probability per token of each candidate, weighted with that of its suffix; higher is better.

    `prefix` has a row of each layer per candidate and ends just before `last_id`, the last token in front of the first
    hole (None: there is none).
    """
    before = [] if last_id is None else [last_id]
    fed = [[*before, *one.fill, *one.suffix] for one in candidates]
    longest = max(len(ids) for ids in fed)
    batch = torch.tensor([[*ids, *([0] * (longest - len(ids)))] for ids in fed], device=network.device)
    hidden = network.encode(batch, Branches(prefix))
    return [
        _score(_log_probabilities(network, hidden[i], ids), len(before) + len(one.fill) - 1, one.weights)
        for i, (ids, one) in enumerate(zip(fed, candidates, strict=True))
    ]


def _log_probabilities(network: Network, hidden: torch.Tensor, ids: Sequence[int]) -> torch.Tensor:
    """(n, d) hidden states of n tokens -> (n - 1,): of each but the first, given those before it."""
    following = torch.tensor(ids[1:], device=hidden.device, dtype=torch.long)[:, None]
    return network.logits(hidden[: len(ids) - 1]).log_softmax(-1).gather(-1, following)[:, 0]


def _score(log_probabilities: torch.Tensor, fill: int, weights: Weights) -> float:
    """The weighted mean of what the first `fill` say and of what the others, the suffix, say, where there are any."""
    inside, behind = log_probabilities[:fill], log_probabilities[fill:]
    return weighted(float(inside.sum()), len(inside), float(behind.mean()) if len(behind) else None, weights)


def weighted(fill: float, tokens: int, suffix: float | None, weights: Weights) -> float:
    """The score of a fill of log-probability `fill` whose suffix has this mean log-probability, None without one."""
    score = fill / max(1.0, tokens + weights.smoothing)
    return score if suffix is None else (score + weights.suffix * suffix) / (1 + weights.suffix)
