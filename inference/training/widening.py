"""Start a wider network from a narrower one that it computes the same as: room to learn more, nothing forgotten.

The MLPs' new units begin with random inputs and with outputs of zero, so that at first they change nothing (function-
preserving growth: Chen, Goodfellow and Shlens, "Net2Net", 2015, https://arxiv.org/abs/1511.05641).
"""

from collections.abc import Mapping

import torch
from torch import Tensor

_INPUTS = ("mlp.gate_proj.weight", "mlp.up_proj.weight", "conditioning.gate_proj.weight", "conditioning.up_proj.weight")
_OUTPUTS = ("mlp.down_proj.weight", "conditioning.down_proj.weight")


def widened(weights: Mapping[str, Tensor], like: Mapping[str, Tensor], seed: int) -> dict[str, Tensor]:
    """`weights` with their MLPs as wide as those of `like`; all else, and what is as wide already, as it is."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: _widened(name, one, like[name].shape, generator) if name in like else one for name, one in weights.items()
    }


def _widened(name: str, old: Tensor, shape: torch.Size, generator: torch.Generator) -> Tensor:
    """(m, d) or (d, m) -> the same with more units m, where it is a matrix of an MLP."""
    if name.endswith(_INPUTS) and shape[0] > old.shape[0] and shape[1] == old.shape[1]:
        fresh = torch.randn(shape[0] - old.shape[0], shape[1], generator=generator) * old.float().std()
        return torch.cat([old, fresh.to(old.dtype)])
    if name.endswith(_OUTPUTS) and shape[1] > old.shape[1] and shape[0] == old.shape[0]:
        return torch.cat([old, old.new_zeros(shape[0], shape[1] - old.shape[1])], 1)
    return old
