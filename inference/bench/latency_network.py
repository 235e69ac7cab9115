"""The network for `infill-ls bench latency`: a checkpoint's, or random weights of a given shape.

And the limits of a pass through it: time, memory, and the bytes it must read; and writing with it from left to right.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import psutil
import torch

from inference.models import devices, registry
from inference.models.diffusion_gemma import fast_passes
from inference.models.diffusion_gemma.adapter import DiffusionGemma
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.prefix_cache import PrefixCache
from inference.models.diffusion_gemma.stated import NO_VISION
from inference.models.family import ModelError
from inference.models.properties import Properties

RELEASED_TEXT_CONFIG: dict[str, Any] = {
    "vocab_size": 262_144,
    "hidden_size": 2816,
    "intermediate_size": 2112,
    "num_hidden_layers": 30,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "global_head_dim": 512,
    "num_global_key_value_heads": 2,
    "sliding_window": 1024,
    "num_experts": 128,
    "top_k_experts": 8,
    "moe_intermediate_size": 704,
    "max_position_embeddings": 262_144,
}
"""DiffusionGemma 26B-A4B, layer pattern 5 sliding : 1 full."""

_SMALL_TEXT_CONFIG = RELEASED_TEXT_CONFIG | {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "global_head_dim": 32,
    "num_global_key_value_heads": 1,
    "num_experts": 8,
    "top_k_experts": 2,
    "moe_intermediate_size": 32,
}
"""The same layer pattern, small enough for tests on any machine."""

RANDOM_SHAPES = {"26b": RELEASED_TEXT_CONFIG, "small": _SMALL_TEXT_CONFIG}


@dataclass(frozen=True)
class MeasuredNetwork:
    """A network under measurement."""

    name: str
    network: Network
    properties: Properties


def from_checkpoint(model: str, device: str | None, dtype: str | None) -> MeasuredNetwork:
    """The network of a checkpoint. Raises ModelError."""
    family = DiffusionGemma.load(registry.find(model), device, dtype, lambda _fraction, _what: None)
    return MeasuredNetwork(model, cast("Network", family.network), family.properties)


def random(shape: str, device: str | None, dtype: str | None) -> MeasuredNetwork:
    """Random weights of one of `RANDOM_SHAPES`, made on the device itself. Raises ModelError if they cannot fit."""
    from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion, DiffusionGemmaTextConfig

    place = devices.choose_device(device)
    if shape == "26b" and place.type != "cuda":
        raise ModelError("--random-26b needs a CUDA device with 64 GB: its weights alone are 52 GB")
    precision = devices.precisions(dtype, place)[0]
    if precision.name == devices.FOUR_BIT:
        raise ModelError("random weights are not packed into 4 bits; give a checkpoint, or another --dtype")
    text = DiffusionGemmaTextConfig(**RANDOM_SHAPES[shape])
    config = DiffusionGemmaConfig(text_config=text, vision_config=NO_VISION)
    before = torch.get_default_dtype()
    torch.set_default_dtype(precision.dtype)
    try:
        with torch.device(place):
            model: Any = DiffusionGemmaForBlockDiffusion(config)
    finally:
        torch.set_default_dtype(before)
    model.eval()
    model.set_attn_implementation("sdpa")
    return MeasuredNetwork(f"random-{shape}", fast_passes.fastest(model), Properties())


def left_to_right(prefixes: PrefixCache, prefix_ids: Sequence[int], count: int) -> Iterator[int]:
    """The likeliest next token, `count` times; each `next` is one forward pass, the first also encodes the prefix.

    The encoder is causal and lm_head is tied, so a DiffusionGemma can also write like this. It is the honest baseline
    for the canvas: same weights, same prefix, no view of the text behind. Closing it frees its memory.

    Raises ValueError without a prefix.
    """
    network, (*known, last) = prefixes.network, prefix_ids
    prefix = prefixes.acquire(known)
    try:
        for _ in prefix.encode(known, seal=False):
            pass
        for _ in range(count):
            hidden = network.encode(torch.tensor([[last]], device=network.device), prefix)
            prefix.commit([last])
            last = int(network.logits(hidden[0, -1]).argmax())
            yield last
    finally:
        prefix.release()


def milliseconds(work: Callable[[], object], device: torch.device, repeats: int = 5) -> float:
    """The median time of `work` after a warm-up, including its queued work on the device."""
    work()
    times = []
    for _ in range(repeats):
        wait(device)
        began = time.perf_counter()
        work()
        wait(device)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def wait(device: torch.device) -> None:
    """Waits until the device has finished everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def peak_bytes(device: torch.device) -> int:
    """The peak of torch's allocations on CUDA; elsewhere the resident size of the process now."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return int(psutil.Process().memory_info().rss)


def bandwidth_bytes_per_s(device: torch.device, size_bytes: int) -> float:
    """The memory bandwidth of a large copy, counting bytes read and bytes written."""
    source = torch.empty(size_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size_bytes / (milliseconds(lambda: target.copy_(source), device) / 1000)


def step_bytes(network: Network, rows: int) -> int:
    """How many bytes of weights one decoder pass over `rows` canvas rows must read: all but the unused experts.

    Random rows use 1 - (1 - k/E)^rows of E experts, k each; the embedding is lm_head, and the encoder the decoder.
    """
    config = network.model.config.text_config
    used = 1 - (1 - config.top_k_experts / config.num_experts) ** rows
    total = 0.0
    for name, parameter in network.model.model.decoder.named_parameters():
        share = used if ".experts." in name else 1.0
        total += share * parameter.numel() * parameter.element_size()
    return int(total)
