"""One layer in fewer and larger operations, for small models on a CPU.

Projections with the same input are one product, a norm's weight is folded into the product that follows it, and a
rotation is one complex product, for which the two halves of a head are interleaved. Shapes: B batch, W rows of each, T
earlier rows a layer sees, H query heads, G key heads, D head size, d hidden size.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from inference.models.diffusion_gemma.fused import stacked_heads
from inference.models.diffusion_gemma.passes import LayerView


@dataclass(frozen=True)
class Seen:
    """What a layer's rows may attend to: `shared` rows (1, G, T, D) of the whole batch, then their own."""

    keys: Tensor
    values: Tensor
    shared: LayerView | None = None


See = Callable[[Tensor, Tensor], Seen]
"""From a layer's new keys and values (B, G, W, D)."""


@dataclass(frozen=True)
class PackedLayer:
    """The weights of one layer, packed. Norms are applied without their weights and factors, which are stored here.

    `*_in` products read a normed row. In heads, elements that rotate together are adjacent.
    """

    kind: str
    heads: int
    key_heads: int
    head_size: int
    row_floor: Tensor  # of `unit` for rows of d
    head_floor: Tensor  # and of D
    attention_in: Tensor  # ((H + 2 G) D, d), or ((H + G) D, d) where values are keys
    shares_values: bool
    head_scales: Tensor  # (H + G, D): the weights of the query and key norms
    attention_out: Tensor  # (d, H D)
    after_attention: Tensor  # (d,) and so on: weights of norms
    feed_in: Tensor  # (2 m + 2 e, d): gate and up of the MLP, then of the expert
    mlp_size: int
    mlp_out: Tensor
    expert_out: Tensor
    after_mlp: Tensor
    after_expert: Tensor
    after_feed: Tensor
    scalar: Tensor


def run_layer(layer: PackedLayer, hidden: Tensor, turns: Tensor, mask: Tensor | None, see: See) -> Tensor:
    """(B, W, d) -> (B, W, d)."""
    floor = layer.row_floor
    attended = times(_attended(layer, hidden, turns, mask, see), layer.attention_out)
    hidden = hidden + unit(attended, floor) * layer.after_attention
    fed = times(unit(hidden, floor), layer.feed_in)
    mlp, expert = fed.tensor_split([2 * layer.mlp_size], -1)
    dense = unit(times(gated(mlp), layer.mlp_out), floor) * layer.after_mlp
    routed = unit(times(gated(expert), layer.expert_out), floor) * layer.after_expert
    return (hidden + unit(dense + routed, floor) * layer.after_feed) * layer.scalar


def _attended(layer: PackedLayer, hidden: Tensor, turns: Tensor, mask: Tensor | None, see: See) -> Tensor:
    """(B, W, d) -> (B, W, H D)."""
    shape, to = (*hidden.shape[:2], -1, layer.head_size), layer.attention_in.dtype
    heads = unit(times(unit(hidden, layer.row_floor), layer.attention_in).view(shape), layer.head_floor)
    turned = layer.heads + layer.key_heads
    moved = _turned(heads[:, :, :turned] * layer.head_scales, turns).to(to).transpose(1, 2)
    values = heads[:, :, layer.heads : turned] if layer.shares_values else heads[:, :, turned:]
    seen = see(moved[:, layer.heads :], values.to(to).transpose(1, 2))
    mix = _mixed if seen.shared is None else _mixed_with_shared
    return mix(moved[:, : layer.heads], seen, mask).transpose(1, 2).flatten(2)


def _turned(heads: Tensor, turns: Tensor) -> Tensor:
    """(B, W, heads, D), rotated by position."""
    pairs = torch.view_as_complex(heads.view(*heads.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)


def times(rows: Tensor, matrix: Tensor) -> Tensor:
    """(..., n) rows and an (m, n) matrix -> (..., m) in float32; multiplied in the matrix's dtype."""
    return F.linear(rows.to(matrix.dtype), matrix).float()


def _mixed(queries: Tensor, seen: Seen, mask: Tensor | None) -> Tensor:
    """Unscaled attention, as in these models: (B, H, W, D) queries over (B, G, T + W, D) keys.

    Written out, because torch's own kernel takes twice as long for so few rows on a CPU.
    """
    stacked, mask = stacked_heads(queries, seen.keys.shape[1], mask)
    weights = _weights((stacked @ seen.keys.transpose(-1, -2)).float(), mask)
    return (weights.to(seen.values.dtype) @ seen.values).reshape(queries.shape)


def _mixed_with_shared(queries: Tensor, seen: Seen, mask: Tensor | None) -> Tensor:
    """The same with a single copy of the prefix's T rows for the whole batch: all its queries are rows of one."""
    assert seen.shared is not None
    (past_keys,), (past_values,) = seen.shared.keys, seen.shared.values  # (G, T, D)
    count, past = past_keys.shape[:2]
    stacked, mask = stacked_heads(queries, count, mask)  # (B, G, R, D)

    def as_one(rows: Tensor) -> Tensor:  # (B, G, R, n) -> (G, B R, n)
        return rows.transpose(0, 1).flatten(1, 2)

    def apart(rows: Tensor) -> Tensor:  # and back
        return rows.view(count, *stacked.shape[::2], rows.shape[2]).transpose(0, 1)

    before = apart(as_one(stacked) @ past_keys.transpose(1, 2))
    weights = _weights(torch.cat([before, stacked @ seen.keys.transpose(-1, -2)], -1), mask)
    of_past = apart(as_one(weights[..., :past]) @ past_values)
    return (of_past + weights[..., past:] @ seen.values).reshape(queries.shape)


def _weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1)


def unit(rows: Tensor, floor: Tensor) -> Tensor:
    """x / sqrt(x . x + floor^2) over the last dimension of n: RMS norm without weight and its factor of sqrt(n)."""
    return rows / torch.hypot(torch.linalg.vector_norm(rows, dim=-1, keepdim=True), floor)


def floor_of(size: int, eps: float) -> Tensor:
    """The `unit` value for the epsilon of an RMS norm over `size` elements."""
    return torch.tensor(math.sqrt(size * eps))


def gated(rows: Tensor) -> Tensor:
    gate, up = rows.chunk(2, -1)
    return F.gelu(gate, approximate="tanh") * up


def packed(layer: Any, kind: str, products: torch.dtype) -> PackedLayer:
    attention, mlp, experts = layer.self_attn, layer.mlp, layer.experts
    size: int = attention.head_dim
    projections = [attention.q_proj, attention.k_proj, *([attention.v_proj] if attention.v_proj is not None else [])]
    heads, key_heads = (part.out_features // size for part in projections[:2])
    of_row, of_head = math.sqrt(attention.q_proj.in_features), math.sqrt(size)  # the factors of the norms
    pairs = torch.arange(size).view(2, -1).t().flatten()
    before_mlp, before_expert = layer.pre_feedforward_layernorm, layer.pre_feedforward_layernorm_2
    feed_in = [part.weight * (before_mlp.weight * of_row) for part in (mlp.gate_proj, mlp.up_proj)]
    feed_in.append(experts.gate_up_proj[0] * (before_expert.weight * of_row))
    attention_in = [part.weight * (layer.input_layernorm.weight * of_row) for part in projections]
    norms = [attention.q_norm.weight] * heads + [attention.k_norm.weight] * key_heads
    eps = layer.input_layernorm.eps
    return PackedLayer(
        kind=kind,
        heads=heads,
        key_heads=key_heads,
        head_size=size,
        row_floor=floor_of(attention.q_proj.in_features, eps),
        head_floor=floor_of(size, eps),
        attention_in=joined([part.unflatten(0, (-1, size))[:, pairs].flatten(0, 1) for part in attention_in], products),
        shares_values=attention.v_proj is None,
        head_scales=(torch.stack(norms)[:, pairs] * of_head).detach(),
        attention_out=joined(
            [(attention.o_proj.weight * of_head).unflatten(1, (-1, size))[..., pairs].flatten(1)], products
        ),
        after_attention=(layer.post_attention_layernorm.weight * of_row).detach(),
        feed_in=joined(feed_in, products),
        mlp_size=mlp.gate_proj.out_features,
        mlp_out=joined([mlp.down_proj.weight], products),
        expert_out=joined([experts.down_proj[0] * layer.router.per_expert_scale[0]], products),
        after_mlp=(layer.post_feedforward_layernorm_1.weight * of_row).detach(),
        after_expert=(layer.post_feedforward_layernorm_2.weight * of_row).detach(),
        after_feed=(layer.post_feedforward_layernorm.weight * of_row).detach(),
        scalar=layer.layer_scalar,
    )


def joined(matrices: list[Tensor], products: torch.dtype) -> Tensor:
    return torch.cat(matrices, 0).detach().to(products).contiguous()
