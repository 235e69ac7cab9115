"""A fresh Qwen2 of a given shape."""

from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from inference.training.config import ModelConfig
from inference.training.tokenizer import Tokens

_ROPE_THETA = 10_000.0


def build(shape: ModelConfig, seed: int, tokens: Tokens) -> Any:
    """A `Qwen2ForCausalLM` with random weights, float32."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=shape.vocabulary_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.mlp_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads or shape.heads,
        max_position_embeddings=shape.max_positions,
        rope_parameters={"rope_type": "default", "rope_theta": _ROPE_THETA},
        tie_word_embeddings=True,
        use_cache=False,
        eos_token_id=tokens.eos,
        pad_token_id=tokens.pad,
    )
    if tokens.mask is not None:
        config.mask_token_id = tokens.mask
    return Qwen2ForCausalLM(config)
