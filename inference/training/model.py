"""A model in training, on its device, with everything that training needs to know about it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion, DiffusionGemmaTextConfig

from inference.models.diffusion_gemma.stated import NO_VISION
from inference.training.config import ModelConfig
from inference.training.prompt_framing import Framing
from inference.training.tokenizer import BOS, EOS, PAD, Tokens

_OUTPUT_SCALE = 0.3
"""Layers that write to the residual stream start small, so that early training is not their noise."""


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
