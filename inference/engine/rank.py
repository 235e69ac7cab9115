"""Which candidate is best: the exact causal likelihood of its fill and of the first tokens that follow it.

The encoder is causal and shares its weights and lm_head with the decoder, so one extra pass over all candidates scores
them as a left-to-right model would (the reranking of PILL, with exact instead of estimated probabilities).

A mean over fill and suffix together would weigh the suffix the less, the longer the fill: lengths could not be
compared. So each part has a mean of its own. That the suffix counts twice was measured on an earlier embedded
checkpoint: of three lengths it chose better (edit similarity 0.286) than equal weights (0.280) or one mean over all
(0.276). On the one after it the three did not differ by more than chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from inference.engine.network import Network, PrefixView
from inference.engine.prefix_cache import Branches

SUFFIX_TOKENS = 16
"""How many tokens behind the last hole count; a fill that does not lead on to them is a bad fill."""

_SUFFIX_WEIGHT = 2.0


@dataclass(frozen=True)
class Judged:
    """The tokens of one candidate from the first hole to the end of the last, and the pinned ones that follow."""

    fill: Sequence[int]
    suffix: Sequence[int]


@torch.inference_mode()
def scores(network: Network, prefix: PrefixView, last_id: int | None, candidates: Sequence[Judged]) -> list[float]:
    """The mean log-probability per token of each candidate, its suffix weighted; higher is better.

    `prefix` has a row of each layer per candidate and ends just before `last_id`, the last token in front of the first
    hole (None: there is none).
    """
    before = [] if last_id is None else [last_id]
    fed = [[*before, *one.fill, *one.suffix] for one in candidates]
    longest = max(len(ids) for ids in fed)
    batch = torch.tensor([[*ids, *([0] * (longest - len(ids)))] for ids in fed], device=network.device)
    hidden = network.encode(batch, Branches(prefix))
    return [
        _score(_log_probabilities(network, hidden[i], ids), len(before) + len(one.fill) - 1)
        for i, (ids, one) in enumerate(zip(fed, candidates, strict=True))
    ]


def _log_probabilities(network: Network, hidden: torch.Tensor, ids: Sequence[int]) -> torch.Tensor:
    """(n, d) hidden states of n tokens -> (n - 1,): of each but the first, given those before it."""
    following = torch.tensor(ids[1:], device=hidden.device, dtype=torch.long)[:, None]
    return network.logits(hidden[: len(ids) - 1]).log_softmax(-1).gather(-1, following)[:, 0]


def _score(log_probabilities: torch.Tensor, fill: int) -> float:
    """The weighted mean of the means of the first `fill` and of the others; a part without tokens does not count."""
    parts = [(log_probabilities[:fill], 1.0), (log_probabilities[fill:], _SUFFIX_WEIGHT)]
    counted = [(float(part.mean()), weight) for part, weight in parts if len(part)]
    return sum(mean * weight for mean, weight in counted) / max(1.0, sum(weight for _, weight in counted))
