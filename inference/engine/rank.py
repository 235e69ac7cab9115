"""Which candidate is best: the exact causal likelihood of its fill and of the first tokens that follow it.

The encoder is causal and shares its weights and lm_head with the decoder, so one extra pass over all candidates scores
them as a left-to-right model would (the reranking of PILL, with exact instead of estimated probabilities).
"""

from collections.abc import Sequence

import torch

from inference.engine.network import Network, PrefixView
from inference.engine.prefix_cache import Branches

SUFFIX_TOKENS = 16
"""How many tokens behind the last hole count; a fill that does not lead on to them is a bad fill."""


@torch.inference_mode()
def scores(network: Network, prefix: PrefixView, last_id: int | None, texts: Sequence[Sequence[int]]) -> list[float]:
    """The mean log-probability per token of each candidate, higher is better.

    `prefix` has a row of each layer per candidate and ends just before `last_id`, the last token in front of the first
    hole (None: there is none). `texts` are the candidates' tokens from there on.
    """
    fed = [[*([] if last_id is None else [last_id]), *text] for text in texts]
    longest = max(len(ids) for ids in fed)
    batch = torch.tensor([[*ids, *([0] * (longest - len(ids)))] for ids in fed], device=network.device)
    hidden = network.encode(batch, Branches(prefix))
    return [_mean_log_probability(network, hidden[i], ids) for i, ids in enumerate(fed)]


def _mean_log_probability(network: Network, hidden: torch.Tensor, ids: Sequence[int]) -> float:
    """(n, d) hidden states of one candidate's tokens -> the mean log-probability of each given those before it."""
    if len(ids) < 2:
        return 0.0
    log_probabilities = network.logits(hidden[: len(ids) - 1]).log_softmax(-1)
    following = torch.tensor(ids[1:], device=hidden.device)[:, None]
    return float(log_probabilities.gather(-1, following).mean())
