"""The weights of a small DiffusionGemma as those of a Qwen2.

Both are the same kind of network, but Qwen2 normalises less. Each of DiffusionGemma's further norms is replaced by a
constant, what it divides by on average; expert and MLP become one MLP. The tokens' embeddings keep their ratio to what
layers write. By itself the result is a poor copy: qwen2_start.py makes it a good one. Biases are zero.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

STREAM_SCALE = 8.0
"""What embeddings are multiplied with; DiffusionGemma does so on the way, by the root of the hidden size."""

_SILU_FOR_GELU = 1.702
"""gelu(x) is nearly silu(1.702 x) / 1.702."""


def weights(source: Any, config: Any, sizes: Mapping[str, float], inner: float) -> dict[str, Tensor]:
    """The weights by Qwen2's names, with constants for the norms that it lacks."""
    decoder = source.model.decoder
    found = {
        "model.embed_tokens.weight": decoder.embed_tokens.weight * STREAM_SCALE,
        "model.norm.weight": decoder.norm.weight / STREAM_SCALE,
    }
    for number, layer in enumerate(decoder.layers):
        at = f"layers.{number}"
        parts = _attention(layer, sizes, at, config, inner) | _mlp(layer, sizes, at, inner)
        found |= {f"model.{at}.{name}": one for name, one in parts.items()}
    return found


def _attention(layer: Any, sizes: Mapping[str, float], at: str, config: Any, inner: float) -> dict[str, Tensor]:
    own, size = layer.self_attn, layer.self_attn.head_dim
    heads, groups = config.num_attention_heads, config.num_key_value_heads
    values = own.k_proj.weight if own.v_proj is None else own.v_proj.weight
    queries = own.q_proj.weight * own.q_norm.weight.repeat(heads)[:, None] / sizes[f"{at}.self_attn.q_norm"]
    keys = own.k_proj.weight * own.k_norm.weight.repeat(heads)[:, None] / sizes[f"{at}.self_attn.k_norm"]
    values = values / sizes[f"{at}.self_attn.v_norm"]
    output = own.o_proj.weight * layer.post_attention_layernorm.weight[:, None]

    def shared(by_head: Tensor) -> Tensor:  # heads that share keys and values get their mean
        return by_head.view(groups, -1, size, by_head.shape[1]).mean(1).flatten(0, 1)

    return {
        "input_layernorm.weight": layer.input_layernorm.weight,
        "self_attn.q_proj.weight": queries * size**0.5,
        "self_attn.q_proj.bias": torch.zeros(heads * size),
        "self_attn.k_proj.weight": shared(keys),
        "self_attn.k_proj.bias": torch.zeros(groups * size),
        "self_attn.v_proj.weight": shared(values),
        "self_attn.v_proj.bias": torch.zeros(groups * size),
        "self_attn.o_proj.weight": output * inner / sizes[f"{at}.post_attention_layernorm"],
    }


def _mlp(layer: Any, sizes: Mapping[str, float], at: str, inner: float) -> dict[str, Tensor]:
    """MLP and expert side by side: Qwen2's is as wide as both together."""
    gate, up = layer.experts.gate_up_proj[0].chunk(2)
    before, beside = layer.pre_feedforward_layernorm.weight, layer.pre_feedforward_layernorm_2.weight
    dense = layer.mlp.down_proj.weight * layer.post_feedforward_layernorm_1.weight[:, None]
    routed = (
        layer.experts.down_proj[0]
        * layer.router.per_expert_scale[0]
        * layer.post_feedforward_layernorm_2.weight[:, None]
    )
    down = torch.cat(
        [
            dense / sizes[f"{at}.post_feedforward_layernorm_1"],
            routed / sizes[f"{at}.post_feedforward_layernorm_2"],
        ],
        1,
    )
    down = down * layer.post_feedforward_layernorm.weight[:, None] / sizes[f"{at}.post_feedforward_layernorm"]
    return {
        "post_attention_layernorm.weight": torch.ones_like(before),
        "mlp.gate_proj.weight": torch.cat([layer.mlp.gate_proj.weight * before, gate * beside]) * _SILU_FOR_GELU,
        "mlp.up_proj.weight": torch.cat([layer.mlp.up_proj.weight * before, up * beside]),
        "mlp.down_proj.weight": down * inner / _SILU_FOR_GELU,
    }
