"""What is measured: a network with its prefix cache, from a checkpoint or with random weights of the released shape."""

from dataclasses import dataclass
from typing import Any

import torch

from inference.engine.errors import ModelError
from inference.models import checkpoint
from inference.models.checkpoint import Properties
from inference.models.diffusion_gemma import weights
from inference.models.diffusion_gemma.network import Network
from inference.training.model import NO_VISION

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
"""The same pattern, small enough for any machine: tests run the benchmark's own code on it."""

RANDOM_SHAPES = {"26b": RELEASED_TEXT_CONFIG, "small": _SMALL_TEXT_CONFIG}


@dataclass(frozen=True)
class MeasuredNetwork:
    """A network under measurement."""

    name: str
    network: Network
    properties: Properties


def from_checkpoint(model: str, device: str | None, dtype: str | None) -> MeasuredNetwork:
    """A checkpoint's network. Raises ModelError."""
    found = checkpoint.find(model)
    place = weights.choose_device(device)
    chosen = weights.choose_dtype(dtype, place)
    network = weights.load(found, place, chosen, lambda _fraction, _what: None, exact=dtype is not None)
    return MeasuredNetwork(model, network, found.properties)


def random(shape: str, device: str | None, dtype: str | None) -> MeasuredNetwork:
    """Random weights of a shape, made on the device itself. Raises ModelError where they cannot fit."""
    from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion, DiffusionGemmaTextConfig

    place = weights.choose_device(device)
    if shape == "26b" and place.type != "cuda":
        raise ModelError("--random-26b needs a CUDA device with 64 GB: its weights alone are 52 GB")
    chosen = weights.choose_dtype(dtype, place)
    text = DiffusionGemmaTextConfig(**RANDOM_SHAPES[shape])
    config = DiffusionGemmaConfig(text_config=text, vision_config=NO_VISION)
    config._attn_implementation = "sdpa"
    with torch.device(place), _default_dtype(chosen):
        model: Any = DiffusionGemmaForBlockDiffusion(config)
    model.eval()
    return MeasuredNetwork(f"random-{shape}", weights.prepared(model), Properties())


class _default_dtype:  # noqa: N801 - reads as a word in a with statement
    """New tensors are of this dtype inside the block."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype, self._before = dtype, torch.get_default_dtype()

    def __enter__(self) -> None:
        torch.set_default_dtype(self._dtype)

    def __exit__(self, *_error: object) -> None:
        torch.set_default_dtype(self._before)


def step_bytes(network: Network, rows: int) -> int:
    """The weight bytes one decoder pass over `rows` canvas rows must read: all of them, experts as far as touched.

    A row chooses k of E experts; of random rows, a share of 1 - (1 - k/E)^rows of the experts is touched. The
    embedding is read whole once, as lm_head; the encoder's weights are the decoder's.
    """
    config = network.model.config.text_config
    touched = 1 - (1 - config.top_k_experts / config.num_experts) ** rows
    total = 0.0
    for name, parameter in network.model.model.decoder.named_parameters():
        share = touched if ".experts." in name else 1.0
        total += share * parameter.numel() * parameter.element_size()
    return int(total)
