"""Reads the weights of a checked masked-diffusion checkpoint, one tensor at a time, into the network."""

from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import nn

from inference.models import devices
from inference.models.checkpoint import Checkpoint
from inference.models.devices import EIGHT_BIT, FOUR_BIT, Precision, quantiser
from inference.models.family import ModelError, OnProgress
from inference.models.llama import llama_config, weight_shapes
from inference.models.masked.network import Qwen2
from inference.models.shards import opened

_EMBEDDING = "model.embed_tokens.weight"
_HEAD = "lm_head.weight"
_BY_ITSELF = {
    "cpu": ("bfloat16", "float32", devices.EIGHT_BIT, devices.FOUR_BIT),
    "cuda": ("bfloat16", devices.EIGHT_BIT, devices.FOUR_BIT),
}
"""The dtypes to try on each device if none is named; the first that fits wins."""

_LOADED_AT = 0.2
_LAYERS_DONE_AT = 0.85


def precisions(device: torch.device, wanted: str | None) -> list[Precision]:
    """Only the requested precision, or all that a device allows, best first. Raises ModelError.

    Without matrix units for bfloat16 a CPU is fastest in float32, then in 8 bits: first fills have hundreds of rows.
    """
    by_itself = [devices.PRECISIONS[name] for name in _BY_ITSELF.get(device.type, ("bfloat16",))]
    candidates = devices.precisions(wanted, device) if wanted else by_itself
    if device.type == "cpu" and not devices.fast_bfloat16():
        candidates = sorted(candidates, key=lambda one: one.name == "bfloat16")
    if device.type == "cpu" and not devices.native_bfloat16():
        candidates = [replace(one, dtype=torch.float32) if one.name in BITS else one for one in candidates]
    return candidates


def weight_bytes(found: Checkpoint, precision: Precision) -> float:
    """The memory of the weights. Raises ModelError if that depends on a file that cannot be read."""
    return sum((_bytes(name, shape, precision) for name, shape in found.shapes().items()), 0.0)


def read(found: Checkpoint, device: torch.device, precision: Precision, progress: OnProgress) -> Qwen2:
    """The network of a checkpoint, on its device. Raises ModelError if its weights contradict its description."""
    config = llama_config(found)
    shards = opened(found)
    shapes = weight_shapes(config)
    with torch.device("meta"):
        network = Qwen2(config).requires_grad_(False).eval()

    def give(module: Any, name: str, full: str) -> None:
        value = shards.tensor(full, shapes[full], device, precision.dtype)
        if not bool(value.isfinite().all()):
            raise ModelError(f"{shards.name}: {full} holds NaN or infinity; download the checkpoint again")
        setattr(module, name, nn.Parameter(value, requires_grad=False))

    for number, layer in enumerate(network.layers):
        share = number / len(network.layers)
        progress(_LOADED_AT + (_LAYERS_DONE_AT - _LOADED_AT) * share, f"layer {number + 1} of {len(network.layers)}")
        for path, module in layer.named_modules():
            for name, _ in list(module.named_parameters(recurse=False)):
                give(module, name, f"model.layers.{number}.{path}.{name}")
        if precision.name in BITS:
            pack(layer, precision)
    give(network.embed_tokens, "weight", _EMBEDDING)
    give(network.norm, "weight", "model.norm.weight")
    if _HEAD in shards.shapes:  # some conversions say that it is tied and have one of its own
        give(network.lm_head, "weight", _HEAD)
    else:
        network.lm_head.weight = network.embed_tokens.weight
    return network


BITS = {EIGHT_BIT: 8, FOUR_BIT: 4}
_BLOCK = 64
"""In 4 bits, this many numbers share an 8-bit scale; in 8 bits, a row shares a 32-bit one."""

_OUTLIER = 6.0
"""Inputs beyond it are multiplied in the dtype of the computation (LLM.int8())."""


def _bytes(name: str, shape: tuple[int, ...], precision: Precision) -> float:
    """The memory of the weight with this name and shape."""
    if precision.name not in BITS or len(shape) != 2 or ".layers." not in name:
        return prod(shape) * float(precision.dtype.itemsize)
    scales = 4 * shape[0] if precision.name == EIGHT_BIT else prod(shape) / _BLOCK
    return prod(shape) * BITS[precision.name] / 8 + scales


def pack(layer: nn.Module, precision: Precision) -> None:
    """Packs a layer's linear modules, which have their weights; nothing else is packed. Raises ModelError."""
    for owner in list(layer.modules()):
        for name, linear in list(owner.named_children()):
            if isinstance(linear, nn.Linear):
                setattr(owner, name, _packed(linear, precision))


def _packed(linear: nn.Linear, precision: Precision) -> nn.Module:
    modules = quantiser().nn
    weight = linear.weight
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
