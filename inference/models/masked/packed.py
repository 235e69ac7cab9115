"""The linear layers of a network in 8 or 4 bits, by bitsandbytes, one layer of the network after the other.

The embedding, the head and all that is no matrix stay in the dtype of the computation.
"""

from math import prod
from typing import Any

import torch
from torch import nn

from inference.models.devices import EIGHT_BIT, FOUR_BIT, Precision
from inference.models.quantiser import library

BITS = {EIGHT_BIT: 8, FOUR_BIT: 4}
_BLOCK = 64
"""So many numbers share a scale of 8 bits in 4 bits; in 8 bits a row shares one of 32."""

_OUTLIER = 6.0
"""Inputs beyond it are multiplied in the dtype of the computation (LLM.int8())."""


def weight_bytes(name: str, shape: tuple[int, ...], precision: Precision) -> float:
    """How much memory the weight of this name and shape takes."""
    if precision.name not in BITS or len(shape) != 2 or ".layers." not in name:
        return prod(shape) * float(precision.dtype.itemsize)
    scales = 4 * shape[0] if precision.name == EIGHT_BIT else prod(shape) / _BLOCK
    return prod(shape) * BITS[precision.name] / 8 + scales


def pack(layer: nn.Module, precision: Precision) -> None:
    """Replaces the linear modules of a layer, which have their weights, by packed ones. Raises ModelError."""
    for owner in list(layer.modules()):
        for name, linear in list(owner.named_children()):
            if isinstance(linear, nn.Linear):
                setattr(owner, name, _packed(linear, precision))


def _packed(linear: nn.Linear, precision: Precision) -> nn.Module:
    modules, weight = library().nn, linear.weight
    shape = linear.in_features, linear.out_features, linear.bias is not None
    made: Any
    if precision.name == EIGHT_BIT:
        with torch.device("meta"):
            made = modules.Linear8bitLt(*shape, has_fp16_weights=False, threshold=_OUTLIER)
        made.weight = modules.Int8Params(weight.data.cpu(), requires_grad=False, has_fp16_weights=False)
    else:
        with torch.device("meta"):
            made = modules.Linear4bit(*shape, compute_dtype=precision.dtype, quant_type="nf4")
        made.weight = modules.Params4bit(
            weight.data.cpu(), requires_grad=False, quant_type="nf4", compress_statistics=True, blocksize=_BLOCK
        )
    made.weight = made.weight.to(weight.device)  # which packs it
    made.bias = linear.bias
    return made.requires_grad_(False).eval()  # type: ignore[no-any-return]
