"""The layers in fewer operations, on any device, which bound a pass over few rows.

Uses torch's own RMSNorm, and a shortcut for a single expert; the modules of transformers keep the weights. Shapes: B
batch, W rows of each, d hidden size, H query heads, G key heads, D head size.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from inference.models.diffusion_gemma.network import MaskOf, Network
from inference.models.diffusion_gemma.passes import PrefixView

Seen = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Maps a layer's new keys and values (B, G, W, D) to everything its rows may attend to."""

Rotary = tuple[Tensor, Tensor]
"""Cosines and sines of the rows' positions, (B or 1, W, D)."""


class FusedNetwork(Network):
    """A network whose layers take fewer operations."""

    def _conditioned(self, embedded: Tensor, soft: Tensor | None) -> Tensor:
        signal = self._decoder.self_conditioning
        if soft is not None:  # no signal adds nothing
            normed = rms_norm(signal.pre_norm, soft)
            gated = signal.act_fn(signal.gate_proj(normed)) * signal.up_proj(normed)
            embedded = embedded + signal.down_proj(gated)
        return rms_norm(signal.post_norm, embedded)

    def _run(self, stack: Any, hidden: Tensor, positions: Tensor, mask_of: MaskOf, cache: Any) -> Tensor:
        rotary = {kind: stack.rotary_emb(hidden, positions, kind) for kind in set(self.layer_types)}
        for number, (layer, kind) in enumerate(zip(stack.layers, self.layer_types, strict=True)):
            seen = _behind(cache, number) if stack is self._decoder else partial(cache.update, layer_index=number)
            hidden = _layer(layer, hidden, rotary[kind], mask_of(kind), seen)
        return rms_norm(stack.norm, hidden)


def rms_norm(norm: Any, rows: Tensor) -> Tensor:
    """Applies a `DiffusionGemmaRMSNorm` to rows, in float32 as the stock one: x / rms(x) * weight."""
    weight = norm.weight.float() if norm.with_scale else None
    return functional.rms_norm(rows.float(), rows.shape[-1:], weight, norm.eps).type_as(rows)


def rotated(heads: Tensor, rotary: Rotary) -> Tensor:
    """(B, W, heads, D), rotated by position."""
    cosine, sine = (part[:, :, None] for part in rotary)
    first, second = heads.chunk(2, -1)
    return heads * cosine + torch.cat([-second, first], -1) * sine


def _behind(prefix: PrefixView, number: int) -> Seen:
    """The decoder reads the prefix without changing it."""
    past = prefix.layers[number]
    return lambda keys, values: (torch.cat([past.keys, keys], 2), torch.cat([past.values, values], 2))


def _layer(layer: Any, hidden: Tensor, rotary: Rotary, mask: Tensor | None, seen: Seen) -> Tensor:
    """(B, W, d) -> (B, W, d)."""
    attended = _attended(layer.self_attn, rms_norm(layer.input_layernorm, hidden), rotary, mask, seen)
    hidden = hidden + rms_norm(layer.post_attention_layernorm, attended)
    dense = layer.mlp(rms_norm(layer.pre_feedforward_layernorm, hidden))
    routed = _routed(layer, hidden.flatten(0, 1)).view_as(hidden)
    both = rms_norm(layer.post_feedforward_layernorm_1, dense) + rms_norm(layer.post_feedforward_layernorm_2, routed)
    fed: Tensor = hidden + rms_norm(layer.post_feedforward_layernorm, both)
    return fed * layer.layer_scalar  # type: ignore[no-any-return]


def _attended(attention: Any, normed: Tensor, rotary: Rotary, mask: Tensor | None, seen: Seen) -> Tensor:
    """(B, W, d) -> (B, W, d)."""
    shape = (*normed.shape[:2], -1, attention.head_dim)
    queries, keys = attention.q_proj(normed).view(shape), attention.k_proj(normed).view(shape)
    values = keys if attention.v_proj is None else attention.v_proj(normed).view(shape)
    queries = rotated(rms_norm(attention.q_norm, queries), rotary).transpose(1, 2)
    keys = rotated(rms_norm(attention.k_norm, keys), rotary).transpose(1, 2)
    values = rms_norm(attention.v_norm, values).transpose(1, 2)
    mixed = attend(queries, *seen(keys, values), mask, attention.scaling)
    return attention.o_proj(mixed.transpose(1, 2).reshape(*normed.shape[:2], -1))  # type: ignore[no-any-return]


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """(B, H, W, D) queries over (B, G, T, D) keys and values -> (B, H, W, D). `mask`: (B or 1, 1, W or 1, T)."""
    stacked, mask = stacked_heads(queries, keys.shape[1], mask)
    mixed = functional.scaled_dot_product_attention(stacked, keys, values, attn_mask=mask, scale=scale)
    return mixed.reshape(queries.shape)


def stacked_heads(queries: Tensor, key_heads: int, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """(B, H, W, D) -> (B, G, H / G * W, D): the heads that share a key head as rows of one head; and their mask.

    It copies no keys. torch and transformers copy them for each head, 8-fold on the released full layers.
    """
    batch, heads, rows, size = queries.shape
    sharing = heads // key_heads
    if mask is not None and mask.shape[2] > 1 and sharing > 1:
        mask = mask.repeat(1, 1, sharing, 1)
    return queries.reshape(batch, key_heads, sharing * rows, size), mask


def _routed(layer: Any, rows: Tensor) -> Tensor:
    """The experts' output for rows (B * W, d)."""
    normed = rms_norm(layer.pre_feedforward_layernorm_2, rows)
    if layer.experts.num_experts > 1:
        return layer.experts(normed, *_route(layer.router, rows))  # type: ignore[no-any-return]
    return only_expert(layer, normed)


def only_expert(layer: Any, normed: Tensor) -> Tensor:
    """The output of a layer's single expert for normed rows: no routing to do."""
    gate, up = functional.linear(normed, layer.experts.gate_up_proj[0]).chunk(2, -1)
    output = functional.linear(layer.experts.act_fn(gate) * up, layer.experts.down_proj[0])
    return output * layer.router.per_expert_scale[0]  # type: ignore[no-any-return]


def _route(router: Any, rows: Tensor) -> tuple[Tensor, Tensor]:
    """(n, d) -> for each row its k experts and their weights, both (n, k)."""
    scaled = rms_norm(router.norm, rows) * router.scale * router.scalar_root_size
    probabilities = functional.softmax(router.proj(scaled), dim=-1, dtype=torch.float32)
    weights, chosen = torch.topk(probabilities, k=router.config.top_k_experts, dim=-1)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return chosen, weights * router.per_expert_scale[chosen]
