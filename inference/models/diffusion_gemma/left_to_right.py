"""The same weights as an ordinary language model: prefix only, one token after the other, with a KV cache.

The encoder is causal and lm_head is tied, so a DiffusionGemma checkpoint can also write from left to right. It is the
honest baseline for the canvas: same weights, same prefix, no view of what follows.
"""

from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.prefix_cache import Lease, PrefixCache

_CHUNK_TOKENS = 512


def tokens(
    network: Network, prefixes: PrefixCache, prefix_ids: Sequence[int], count: int, bias: Tensor | None = None
) -> Generator[int, None, None]:
    """The likeliest next token, `count` times; each `next` is one forward pass, the first also encodes the prefix.

    `bias` (V,) is added to the logits. Closing the iterator frees what it holds. Raises ValueError without a prefix.
    """
    if not prefix_ids:
        raise ValueError("left-to-right needs at least one token to start from")
    known = list(prefix_ids[:-1])
    lease = prefixes.acquire(known)
    try:
        while lease.length < len(known):
            _feed(network, lease, known[lease.length : lease.length + _CHUNK_TOKENS])
        last = prefix_ids[-1]
        for _ in range(count):
            logits = network.logits(_feed(network, lease, [last])[0, -1])
            last = int((logits if bias is None else logits + bias).argmax())
            yield last
    finally:
        lease.release()


def _feed(network: Network, lease: Lease, ids: list[int]) -> Tensor:
    hidden = network.encode(torch.tensor([ids], device=network.device), lease)
    lease.commit(ids)
    return hidden
