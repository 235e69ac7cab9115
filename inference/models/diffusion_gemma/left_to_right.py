"""The same weights as an ordinary language model: prefix only, one token after the other.

The encoder is causal and lm_head is tied, so a DiffusionGemma checkpoint can also write from left to right. That is the
honest baseline for the canvas: same weights, same prefix, no view of the text behind.
"""

from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from inference.models.diffusion_gemma.prefix_cache import PrefixCache


def tokens(
    prefixes: PrefixCache, prefix_ids: Sequence[int], count: int, bias: Tensor | None = None
) -> Generator[int, None, None]:
    """The likeliest next token, `count` times; each `next` is one forward pass, the first also encodes the prefix.

    `bias` (V,) is added to the logits. Closing the iterator frees its memory. Raises ValueError without a prefix.
    """
    if not prefix_ids:
        raise ValueError("left-to-right needs at least one token to start from")
    known, network = list(prefix_ids[:-1]), prefixes.network
    prefix = prefixes.acquire(known)
    try:
        for _ in prefix.encode(known, seal=False):
            pass
        last = prefix_ids[-1]
        for _ in range(count):
            hidden = network.encode(torch.tensor([[last]], device=network.device), prefix)
            prefix.commit([last])
            logits = network.logits(hidden[0, -1])
            last = int((logits if bias is None else logits + bias).argmax())
            yield last
    finally:
        prefix.release()
