"""One pass of Qwen2 over whole examples, each row attending as its mask says: what training with masks runs.

It runs over transformers' modules, and equals transformers' own pass; this one compiles to what is fast on a CPU.
Shapes: B examples of L rows, d hidden size.
"""

from typing import Any

import torch
from torch import Tensor

from inference.training.trunk import Rotary, rotated, scaled_attention


def visible(lengths: Tensor, causal: Tensor, rows: int) -> Tensor:
    """(B, 1, L, L): every row sees every row that is no padding; in causal examples none behind itself."""
    row = torch.arange(rows, device=lengths.device)
    ahead = row > row[:, None]
    return ((row < lengths[:, None])[:, None] & ~(ahead & causal[:, None, None]))[:, None]


def rotary(model: Any, rows: int) -> Rotary:
    """The rotary embedding of rows 0 to L."""
    weight = model.model.embed_tokens.weight
    cosine, sine = model.model.rotary_emb(weight.float(), torch.arange(rows, device=weight.device)[None])
    return cosine, sine


def run(model: Any, ids: Tensor, mask: Tensor, rope: Rotary) -> Tensor:
    """(B, L) ids -> (B, L, d), normalised."""
    trunk = model.model
    hidden = trunk.embed_tokens(ids)
    for layer in trunk.layers:
        hidden = through(layer, hidden, rope, mask)
    return trunk.norm(hidden)  # type: ignore[no-any-return]


def through(layer: Any, hidden: Tensor, rope: Rotary, mask: Tensor) -> Tensor:
    """(B, L, d) -> (B, L, d): the stream behind a layer."""
    attention = layer.self_attn
    hidden = hidden + attention.o_proj(mixed(attention, layer.input_layernorm(hidden), rope, mask))
    return hidden + layer.mlp(layer.post_attention_layernorm(hidden))  # type: ignore[no-any-return]


def mixed(attention: Any, hidden: Tensor, rope: Rotary, mask: Tensor) -> Tensor:
    """(B, L, d) normalised rows -> (B, L, heads * head size): what attention mixes, before its last projection."""
    shape = (*hidden.shape[:2], -1, attention.head_dim)
    queries = rotated(attention.q_proj(hidden).view(shape), rope).transpose(1, 2) * attention.scaling
    keys = rotated(attention.k_proj(hidden).view(shape), rope).transpose(1, 2)
    values = attention.v_proj(hidden).view(shape).transpose(1, 2)
    groups = queries.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(groups, 1), values.repeat_interleave(groups, 1)
    return scaled_attention(queries, keys, values, mask).transpose(1, 2).flatten(2)
