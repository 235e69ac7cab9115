"""Both passes in fewer and larger operations, for small models on a CPU.

There a pass over few rows is bound by the number of operations and by the products. Here the projections of a layer
that read the same input are one product, and a norm's weight is folded into the product that follows it. A norm is made
of the length of its vector, in half the time of torch's own, and a rotation is one complex product: the two halves of a
head stand in turns for that. Canvas passes multiply in bfloat16 where the CPU can: the same weights (they are stored
so), three to four times faster; sums, norms and the soft-max stay in float32. The prefix, and with it the likelihoods
that rank candidates, is computed in float32.
Shapes: B batch, W rows of each, T earlier rows a layer sees, H query heads, G key heads, D head size, d hidden size.
"""

import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from inference.models.diffusion_gemma.continued_prefix import ScoringCache
from inference.models.diffusion_gemma.fused import FusedNetwork, rms_norm, stacked_heads
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.passes import EncoderCache, LayerView, PrefixView


@dataclass(frozen=True)
class _Seen:
    """All that a layer's rows may look at: `shared` rows (1, G, T, D) of the whole batch, and behind them their own."""

    keys: Tensor
    values: Tensor
    shared: LayerView | None = None


_See = Callable[[Tensor, Tensor], _Seen]
"""From a layer's new keys and values (B, G, W, D)."""


@dataclass(frozen=True)
class _Layer:
    """The weights of one layer, packed. Norms are applied without their weights and factors, which stand here.

    `*_in` products read a normed row. In heads, the elements that are rotated together are neighbours.
    """

    kind: str
    heads: int
    key_heads: int
    head_size: int
    row_floor: Tensor  # of `_unit` for rows of d
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


class PackedNetwork(FusedNetwork):
    """A network whose passes are made of fewer and larger products."""

    def __init__(self, model: Any, products: torch.dtype) -> None:
        """`products`: the dtype in which the matrices of canvas passes are multiplied."""
        super().__init__(model)
        self.canvas_dtype = products
        self._canvas_layers = _all_packed(self._decoder, self.layer_types, products)
        self._prefix_layers = _all_packed(self._encoder, self.layer_types, torch.float32)
        signal = self._decoder.self_conditioning
        self._signal_floor = _floor(self.hidden_size, signal.pre_norm.eps)
        factor = math.sqrt(self.hidden_size)
        parts = [part.weight * signal.pre_norm.weight * factor for part in (signal.gate_proj, signal.up_proj)]
        self._signal_in, self._signal_out = _joined(parts, products), _joined([signal.down_proj.weight], products)
        self._head = model.lm_head.weight.detach().to(products)  # (V, d), the tied embedding; no copy in float32
        self._turned = 0
        self._table: dict[str, Tensor] = {}
        self._prefix: tuple[weakref.ref[PrefixView], list[LayerView]] | None = None

    @classmethod
    def suits(cls, network: Network) -> bool:
        """Whether the passes of a network can be packed: of one expert, in float32, on a CPU."""
        experts = max(layer.experts.num_experts for layer in network.model.model.decoder.layers)
        return network.device.type == "cpu" and network.dtype == torch.float32 and experts == 1

    @torch.inference_mode()
    def encode(self, ids: Tensor, cache: EncoderCache) -> Tensor:
        """The same as `Network.encode`, to rounding."""
        past, new = cache.length, ids.shape[1]
        hidden = self._encoder.embed_tokens(ids)
        turns = self._turns(self._encoder, past, new)
        masks = {kind: None if new == 1 else self.causal_mask(past, new, kind) for kind in turns}
        for number, layer in enumerate(self._prefix_layers):
            hidden = _run_layer(layer, hidden, turns[layer.kind], masks[layer.kind], _remembered(cache, number))
        return rms_norm(self._encoder.norm, hidden)

    @torch.inference_mode()
    def decode(self, canvas: Tensor, soft: Tensor | None, prefix: PrefixView, valid: Tensor | None = None) -> Tensor:
        """The same as `Network.decode`, to rounding."""
        hidden = self._conditioned(self._decoder.embed_tokens(canvas), soft)
        turns = self._turns(self._decoder, prefix.length, canvas.shape[1])
        mask_of = self.canvas_mask(valid, prefix.length)
        for layer, past in zip(self._canvas_layers, self._rows(prefix), strict=True):
            hidden = _run_layer(layer, hidden, turns[layer.kind], mask_of(layer.kind), _behind(past))
        return rms_norm(self._decoder.norm, hidden)

    def _turns(self, stack: Any, past: int, new: int) -> dict[str, Tensor]:
        """(1, new, 1, D / 2) complex for each kind of layer: how far the heads are turned at these positions."""
        end = past + new
        if end > self._turned:
            self._turned = min(self.max_positions, max(end, 2 * self._turned))
            positions, like = torch.arange(max(end, self._turned))[None], torch.empty(0)
            for kind in set(self.layer_types):
                cosine, sine = (part.chunk(2, -1)[0] for part in stack.rotary_emb(like, positions, kind))
                self._table[kind] = torch.complex(cosine, sine)[:, :, None]
        return {kind: table[:, past:end] for kind, table in self._table.items()}

    def _conditioned(self, embedded: Tensor, soft: Tensor | None) -> Tensor:
        """(B, W, d) embeddings and self-conditioning signal -> the first layer's input. No signal adds nothing."""
        if soft is not None:
            inner = _gated(_times(_unit(soft, self._signal_floor), self._signal_in))
            embedded = embedded + _times(inner, self._signal_out)
        return rms_norm(self._decoder.self_conditioning.post_norm, embedded)

    def _rows(self, prefix: PrefixView) -> list[LayerView]:
        """The prefix in the dtype of the products; converted once, for all steps read the same view."""
        if self._prefix is None or self._prefix[0]() is not prefix:
            to = self.canvas_dtype
            rows = [LayerView(layer.keys.to(to), layer.values.to(to)) for layer in prefix.layers]
            self._prefix = (weakref.ref(prefix), rows)
        return self._prefix[1]

    @torch.inference_mode()
    def canvas_logits(self, hidden: Tensor) -> Tensor:
        """The same as `Network.canvas_logits`, to rounding."""
        return self._capped(F.linear(hidden.to(self.canvas_dtype), self._head))

    @torch.inference_mode()
    def expected_embeddings(self, logits: Tensor, probabilities: Tensor) -> Tensor:
        """The same as `Network.expected_embeddings`, to rounding."""
        expected = (probabilities.to(self.canvas_dtype) @ self._head).float()
        return expected * self._decoder.embed_tokens.embed_scale  # type: ignore[no-any-return]


def _remembered(cache: EncoderCache, number: int) -> _See:
    """The encoder appends to its cache."""
    if not isinstance(cache, ScoringCache):
        return lambda keys, values: _Seen(*cache.update(keys, values, number))
    shared = cache.prefix_layers[number]

    def seen(keys: Tensor, values: Tensor) -> _Seen:
        own = cache.append(keys, values, number)
        return _Seen(own.keys, own.values, shared)

    return seen


def _behind(past: LayerView) -> _See:
    """The decoder reads the prefix, and leaves it as it is."""
    return lambda keys, values: _Seen(torch.cat([past.keys, keys], 2), torch.cat([past.values, values], 2))


def _run_layer(layer: _Layer, hidden: Tensor, turns: Tensor, mask: Tensor | None, see: _See) -> Tensor:
    """(B, W, d) -> (B, W, d)."""
    floor = layer.row_floor
    attended = _times(_attended(layer, hidden, turns, mask, see), layer.attention_out)
    hidden = hidden + _unit(attended, floor) * layer.after_attention
    fed = _times(_unit(hidden, floor), layer.feed_in)
    mlp, expert = fed.tensor_split([2 * layer.mlp_size], -1)
    dense = _unit(_times(_gated(mlp), layer.mlp_out), floor) * layer.after_mlp
    routed = _unit(_times(_gated(expert), layer.expert_out), floor) * layer.after_expert
    return (hidden + _unit(dense + routed, floor) * layer.after_feed) * layer.scalar


def _attended(layer: _Layer, hidden: Tensor, turns: Tensor, mask: Tensor | None, see: _See) -> Tensor:
    """(B, W, d) -> (B, W, H D)."""
    shape, to = (*hidden.shape[:2], -1, layer.head_size), layer.attention_in.dtype
    heads = _unit(_times(_unit(hidden, layer.row_floor), layer.attention_in).view(shape), layer.head_floor)
    turned = layer.heads + layer.key_heads
    moved = _turned(heads[:, :, :turned] * layer.head_scales, turns).to(to).transpose(1, 2)
    values = heads[:, :, layer.heads : turned] if layer.shares_values else heads[:, :, turned:]
    seen = see(moved[:, layer.heads :], values.to(to).transpose(1, 2))
    mix = _mixed if seen.shared is None else _mixed_with_shared
    return mix(moved[:, : layer.heads], seen, mask).transpose(1, 2).flatten(2)


def _turned(heads: Tensor, turns: Tensor) -> Tensor:
    """(B, W, heads, D), turned by position."""
    pairs = torch.view_as_complex(heads.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2)


def _times(rows: Tensor, matrix: Tensor) -> Tensor:
    """(..., n) rows and an (m, n) matrix -> (..., m) in float32; multiplied in the matrix's dtype."""
    return F.linear(rows.to(matrix.dtype), matrix).float()


def _mixed(queries: Tensor, seen: _Seen, mask: Tensor | None) -> Tensor:
    """Unscaled attention, as these models have it: (B, H, W, D) queries over (B, G, T + W, D) keys.

    Written out, because torch's own kernel takes twice as long for so few rows on a CPU.
    """
    stacked, mask = stacked_heads(queries, seen.keys.shape[1], mask)
    weights = _weights((stacked @ seen.keys.transpose(-1, -2)).float(), mask)
    return (weights.to(seen.values.dtype) @ seen.values).reshape(queries.shape)


def _mixed_with_shared(queries: Tensor, seen: _Seen, mask: Tensor | None) -> Tensor:
    """The same where the T rows of the prefix are there once for the whole batch: all its queries are rows of one."""
    assert seen.shared is not None
    (past_keys,), (past_values,) = seen.shared.keys, seen.shared.values  # (G, T, D)
    count, past = past_keys.shape[:2]
    stacked, mask = stacked_heads(queries, count, mask)  # (B, G, R, D)

    def as_one(rows: Tensor) -> Tensor:  # (B, G, R, n) -> (G, B R, n)
        return rows.transpose(0, 1).flatten(1, 2)

    def apart(rows: Tensor) -> Tensor:  # and back
        return rows.unflatten(1, (queries.shape[0], -1)).transpose(0, 1)

    before = apart(as_one(stacked) @ past_keys.transpose(1, 2))
    weights = _weights(torch.cat([before, stacked @ seen.keys.transpose(-1, -2)], -1), mask)
    of_past = apart(as_one(weights[..., :past]) @ past_values)
    return (of_past + weights[..., past:] @ seen.values).reshape(queries.shape)


def _weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1)


def _unit(rows: Tensor, floor: Tensor) -> Tensor:
    """x / sqrt(x . x + floor^2) over the last dimension of n: RMS norm without weight and its factor of sqrt(n)."""
    return rows / torch.hypot(torch.linalg.vector_norm(rows, dim=-1, keepdim=True), floor)


def _floor(size: int, eps: float) -> Tensor:
    """What the epsilon of an RMS norm over `size` elements is to `_unit`."""
    return torch.tensor(math.sqrt(size * eps))


def _gated(rows: Tensor) -> Tensor:
    gate, up = rows.chunk(2, -1)
    return F.gelu(gate, approximate="tanh") * up


def _all_packed(stack: Any, kinds: Sequence[str], products: torch.dtype) -> list[_Layer]:
    return [_packed(layer, kind, products) for layer, kind in zip(stack.layers, kinds, strict=True)]


def _packed(layer: Any, kind: str, products: torch.dtype) -> _Layer:
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
    return _Layer(
        kind=kind,
        heads=heads,
        key_heads=key_heads,
        head_size=size,
        row_floor=_floor(attention.q_proj.in_features, eps),
        head_floor=_floor(size, eps),
        attention_in=_joined(
            [part.unflatten(0, (-1, size))[:, pairs].flatten(0, 1) for part in attention_in], products
        ),
        shares_values=attention.v_proj is None,
        head_scales=(torch.stack(norms)[:, pairs] * of_head).detach(),
        attention_out=_joined(
            [(attention.o_proj.weight * of_head).unflatten(1, (-1, size))[..., pairs].flatten(1)], products
        ),
        after_attention=(layer.post_attention_layernorm.weight * of_row).detach(),
        feed_in=_joined(feed_in, products),
        mlp_size=mlp.gate_proj.out_features,
        mlp_out=_joined([mlp.down_proj.weight], products),
        expert_out=_joined([experts.down_proj[0] * layer.router.per_expert_scale[0]], products),
        after_mlp=(layer.post_feedforward_layernorm_1.weight * of_row).detach(),
        after_expert=(layer.post_feedforward_layernorm_2.weight * of_row).detach(),
        after_feed=(layer.post_feedforward_layernorm.weight * of_row).detach(),
        scalar=layer.layer_scalar,
    )


def _joined(matrices: list[Tensor], products: torch.dtype) -> Tensor:
    return torch.cat(matrices, 0).detach().to(products).contiguous()
