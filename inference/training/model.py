"""A model in training: a fresh one, its parameters, and the folder it is written to, which `--model` accepts."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from tokenizers import Tokenizer
from transformers import (
    DiffusionGemmaConfig,
    DiffusionGemmaForBlockDiffusion,
    DiffusionGemmaTextConfig,
    PreTrainedTokenizerFast,
)
from transformers.models.diffusion_gemma.generation_diffusion_gemma import (
    DiffusionGemmaGenerationConfig,
    EntropyBoundSamplerConfig,
)
from transformers.utils import logging

from inference.models.diffusion_gemma.stated import NO_VISION
from inference.models.properties import Properties
from inference.training import composer
from inference.training.batches import Framing
from inference.training.config import DataConfig, ModelConfig
from inference.training.tokenizer import BOS, EOS, PAD, SPECIAL_TOKENS, Tokens

_OUTPUT_SCALE = 0.3
"""Layers that write to the residual stream start small, so that early training is not their noise."""


_SPECIAL: dict[str, Any] = {
    **dict(zip(("pad_token", "eos_token", "bos_token", "mask_token"), SPECIAL_TOKENS, strict=False)),
    "additional_special_tokens": list(SPECIAL_TOKENS[-1:]),
}
_SHARD = "15MB"
_MASK_SAMPLER = {
    "max_steps": 32,
    "entropy_bound": 0.003,
    "t_max": 0.6,
    "t_min": 0.2,
    "stability": 1,
    "confidence": 0.02,
    "accept_floor": True,
}
"""A small mask checkpoint is rarely sure: it accepts few rows at a time, but some in each step."""


@dataclass(frozen=True)
class TrainableModel:
    """A model on its device, its tokenizer, and `write`, which saves its current state as a `--model` folder."""

    model: Any
    tokenizer: Tokenizer
    tokens: Tokens
    framing: Framing
    write: Callable[[Path], None]


def device() -> torch.device:
    """CUDA if available, otherwise the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def build(shape: ModelConfig, canvas_tokens: int, seed: int) -> Any:
    """A `DiffusionGemmaForBlockDiffusion` with random weights, float32."""
    torch.manual_seed(seed)
    config = DiffusionGemmaConfig(text_config=_text_config(shape), vision_config=NO_VISION, canvas_length=canvas_tokens)
    model = DiffusionGemmaForBlockDiffusion(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight", "experts.down_proj")):
                parameter.mul_(_OUTPUT_SCALE)
    return model


def trained(model: Any) -> dict[str, torch.nn.Parameter]:
    """The trainable parameters, by name: all but the vision tower's and those without a gradient."""
    named = dict(model.named_parameters())
    return {name: one for name, one in named.items() if "vision" not in name and one.requires_grad}


def _text_config(shape: ModelConfig) -> DiffusionGemmaTextConfig:
    kinds = ["sliding_attention"] * (shape.layers - 1) + ["full_attention"]
    return DiffusionGemmaTextConfig(
        vocab_size=shape.vocabulary_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.mlp_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        head_dim=shape.head_size,
        global_head_dim=shape.head_size,  # type: ignore[call-arg]
        num_global_key_value_heads=shape.heads,
        sliding_window=shape.sliding_window_tokens,
        num_experts=1,
        top_k_experts=1,
        moe_intermediate_size=shape.expert_size,
        max_position_embeddings=shape.max_positions,
        layer_types=kinds,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=BOS,
    )


def write_model(folder: Path, model: Any, tokenizer: Tokenizer, tokens: Tokens, data: DataConfig) -> None:
    """A folder that `--model` and `from_pretrained` accept, and that vLLM serves. Does not change the model itself."""
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    shipped = copy.deepcopy(model).to("cpu", torch.bfloat16)
    shipped.generation_config = _own_generation()
    shipped.save_pretrained(folder, max_shard_size=_SHARD)
    fast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, **_SPECIAL, clean_up_tokenization_spaces=False
    )
    fast.save_pretrained(folder)
    write_properties(folder, _own_properties(tokens, data))


def _own_generation() -> DiffusionGemmaGenerationConfig:
    """The sampling settings of `infill.json`, for other programs."""
    return DiffusionGemmaGenerationConfig(  # type: ignore[no-untyped-call]
        max_denoising_steps=_MASK_SAMPLER["max_steps"],
        sampler_config=EntropyBoundSamplerConfig(entropy_bound=_MASK_SAMPLER["entropy_bound"]),
        t_min=_MASK_SAMPLER["t_min"],
        t_max=_MASK_SAMPLER["t_max"],
        stability_threshold=_MASK_SAMPLER["stability"],
        confidence_threshold=_MASK_SAMPLER["confidence"],
    )


def write_properties(folder: Path, properties: Properties | dict[str, Any]) -> None:
    """`infill.json`: information for the engine that `config.json` lacks."""
    (folder / "infill.json").write_bytes(msgspec.json.format(msgspec.json.encode(properties), indent=2))


def _own_properties(tokens: Tokens, data: DataConfig) -> dict[str, Any]:
    """The settings of a checkpoint with our own conventions; the rest are defaults."""
    return {
        "corruption": "mask",
        "mask_token_id": tokens.mask,
        "slack_token_id": tokens.slack,
        "first_text_token_id": tokens.first_text,
        "max_prefix_tokens": data.prefix_tokens,
        "canvas_tokens": data.canvas_tokens,
        "slots": composer.SLOTS,
        "prompt": "plain",
        "continuations": 8,
        "sampler": _MASK_SAMPLER,
    }
