"""Both passes in fewer and larger operations, for small models on a CPU.

There a pass over few rows is bound by the number of operations and by the products. Here the projections of a layer
that read the same input are one product, and a norm's weight is folded into the product that follows it. Canvas passes
multiply in bfloat16 where the CPU can: the same weights (they are stored so), three to four times faster;
sums, norms and the soft-max stay in float32. The prefix, and with it the likelihoods that rank candidates, is computed
in float32.
Shapes: B batch, W rows of each, T earlier rows a layer sees, H query heads, G key heads, D head size, d hidden size.
"""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from inference.models.diffusion_gemma.fused import FusedNetwork, Rotary, Seen, rms_norm, rotated, stacked_heads
from inference.models.diffusion_gemma.network import Network
from inference.models.diffusion_gemma.passes import EncoderCache, LayerView, PrefixView


@dataclass(frozen=True)
class _Layer:
    """The weights of one layer, packed. `*_in` products read a normed row and hold that norm's weight."""

    kind: str
    heads: int
    key_heads: int
    head_size: int
    eps: float
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
        self._eps: float = signal.pre_norm.eps
        parts = [part.weight * signal.pre_norm.weight for part in (signal.gate_proj, signal.up_proj)]
        self._signal_in, self._signal_out = _joined(parts, products), _joined([signal.down_proj.weight], products)
        self._head = model.lm_head.weight.detach().to(products)  # (V, d), the tied embedding; no copy in float32
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
        positions = torch.arange(past, past + new)[None]
        rotary = {kind: self._encoder.rotary_emb(hidden, positions, kind) for kind in set(self.layer_types)}
        masks = {kind: None if new == 1 else self.causal_mask(past, new, kind) for kind in rotary}
        for number, layer in enumerate(self._prefix_layers):

            def remembered(keys: Tensor, values: Tensor, number: int = number) -> tuple[Tensor, Tensor]:
                return cache.update(keys, values, number)

            hidden = _run_layer(layer, hidden, rotary[layer.kind], masks[layer.kind], remembered)
        return rms_norm(self._encoder.norm, hidden)

    @torch.inference_mode()
    def decode(self, canvas: Tensor, soft: Tensor | None, prefix: PrefixView, valid: Tensor | None = None) -> Tensor:
        """The same as `Network.decode`, to rounding."""
        hidden = self._conditioned(self._decoder.embed_tokens(canvas), soft)
        positions = torch.arange(prefix.length, prefix.length + canvas.shape[1])[None]
        rotary = {kind: self._decoder.rotary_emb(hidden, positions, kind) for kind in set(self.layer_types)}
        mask_of = self.canvas_mask(valid, prefix.length)
        for layer, past in zip(self._canvas_layers, self._rows(prefix), strict=True):

            def behind(keys: Tensor, values: Tensor, past: LayerView = past) -> tuple[Tensor, Tensor]:
                return torch.cat([past.keys, keys], 2), torch.cat([past.values, values], 2)

            hidden = _run_layer(layer, hidden, rotary[layer.kind], mask_of(layer.kind), behind)
        return rms_norm(self._decoder.norm, hidden)

    def _conditioned(self, embedded: Tensor, soft: Tensor | None) -> Tensor:
        """(B, W, d) embeddings and self-conditioning signal -> the first layer's input. No signal adds nothing."""
        if soft is not None:
            inner = _gated(_times(_norm(soft, self._eps), self._signal_in))
            embedded = embedded + _times(inner, self._signal_out)
        return _norm(embedded, self._eps)

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


def _run_layer(layer: _Layer, hidden: Tensor, rotary: Rotary, mask: Tensor | None, seen: Seen) -> Tensor:
    """(B, W, d) -> (B, W, d)."""
    attended = _times(_attended(layer, hidden, rotary, mask, seen), layer.attention_out)
    hidden = hidden + _norm(attended, layer.eps) * layer.after_attention
    fed = _times(_norm(hidden, layer.eps), layer.feed_in)
    mlp, expert = fed.tensor_split([2 * layer.mlp_size], -1)
    dense = _norm(_times(_gated(mlp), layer.mlp_out), layer.eps) * layer.after_mlp
    routed = _norm(_times(_gated(expert), layer.expert_out), layer.eps) * layer.after_expert
    return (hidden + _norm(dense + routed, layer.eps) * layer.after_feed) * layer.scalar


def _attended(layer: _Layer, hidden: Tensor, rotary: Rotary, mask: Tensor | None, seen: Seen) -> Tensor:
    """(B, W, d) -> (B, W, H D)."""
    shape, to = (*hidden.shape[:2], -1, layer.head_size), layer.attention_in.dtype
    heads = _norm(_times(_norm(hidden, layer.eps), layer.attention_in).view(shape), layer.eps)
    turned = layer.heads + layer.key_heads
    moved = rotated(heads[:, :, :turned] * layer.head_scales, rotary).to(to).transpose(1, 2)
    values = heads[:, :, layer.heads : turned] if layer.shares_values else heads[:, :, turned:]
    keys, values = seen(moved[:, layer.heads :], values.to(to).transpose(1, 2))
    return _mixed(moved[:, : layer.heads], keys, values, mask).transpose(1, 2).flatten(2)


def _times(rows: Tensor, matrix: Tensor) -> Tensor:
    """(..., n) rows and an (m, n) matrix -> (..., m) in float32; multiplied in the matrix's dtype."""
    return F.linear(rows.to(matrix.dtype), matrix).float()


def _mixed(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Unscaled attention, as these models have it: (B, H, W, D) queries over (B, G, T + W, D) keys.

    Written out, because torch's own kernel takes twice as long for so few rows on a CPU.
    """
    stacked, mask = stacked_heads(queries, keys.shape[1], mask)
    scores = (stacked @ keys.transpose(-1, -2)).float()
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return (scores.softmax(-1).to(values.dtype) @ values).reshape(queries.shape)


def _norm(rows: Tensor, eps: float) -> Tensor:
    """x / rms(x) over the last dimension, without a weight."""
    return F.rms_norm(rows, rows.shape[-1:], eps=eps)


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
    before_mlp, before_expert = layer.pre_feedforward_layernorm, layer.pre_feedforward_layernorm_2
    feed_in = [part.weight * before_mlp.weight for part in (mlp.gate_proj, mlp.up_proj)]
    norms = [attention.q_norm.weight] * heads + [attention.k_norm.weight] * key_heads
    return _Layer(
        kind=kind,
        heads=heads,
        key_heads=key_heads,
        head_size=size,
        eps=layer.input_layernorm.eps,
        attention_in=_joined([part.weight * layer.input_layernorm.weight for part in projections], products),
        shares_values=attention.v_proj is None,
        head_scales=torch.stack(norms).detach(),
        attention_out=_joined([attention.o_proj.weight], products),
        after_attention=layer.post_attention_layernorm.weight.detach(),
        feed_in=_joined([*feed_in, experts.gate_up_proj[0] * before_expert.weight], products),
        mlp_size=mlp.gate_proj.out_features,
        mlp_out=_joined([mlp.down_proj.weight], products),
        expert_out=_joined([experts.down_proj[0] * layer.router.per_expert_scale[0]], products),
        after_mlp=layer.post_feedforward_layernorm_1.weight.detach(),
        after_expert=layer.post_feedforward_layernorm_2.weight.detach(),
        after_feed=layer.post_feedforward_layernorm.weight.detach(),
        scalar=layer.layer_scalar,
    )


def _joined(matrices: list[Tensor], products: torch.dtype) -> Tensor:
    return torch.cat(matrices, 0).detach().to(products).contiguous()
