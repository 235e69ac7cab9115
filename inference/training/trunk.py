"""One pass over [stream; canvases] that equals encoder, then decoder: the pass that training runs.

Both share their weights: the stream's rows attend causally, a canvas to the stream before it and to itself. A block
mask makes that one pass, which halves the launches and lets one stream serve several canvases. Shapes: B streams, P
stream rows, K canvases of C rows, L = P + K * C rows, d hidden size, D head size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from inference.models.diffusion_gemma.fused import Rotary, only_expert, rotated


def positions(splits: Tensor, prefix_rows: int, canvas_rows: int) -> Tensor:
    """(B, K) splits -> (B, L): the stream counts from 0, canvas k from its split."""
    stream = torch.arange(prefix_rows, device=splits.device).expand(len(splits), -1)
    canvases = splits[..., None] + torch.arange(canvas_rows, device=splits.device)
    return torch.cat([stream, canvases.flatten(1)], 1)


@dataclass(frozen=True)
class Masks:
    """True where a row may attend."""

    stream: Tensor  # (P, P)
    canvases: Tensor  # (B * K, 1, C, P + C)


def visible(splits: Tensor, lengths: Tensor, prefix_rows: int, canvas_rows: int, window: int | None = None) -> Masks:
    """(B, K) splits and canvas lengths -> the visible rows of each row; `window` as in transformers' sliding layers:

    a stream row sees that many rows with itself, a canvas itself and the last `window - 1` rows before it.
    """
    row = torch.arange(prefix_rows, device=splits.device)
    causal = row[:, None] >= row
    seen = row < splits[..., None]  # (B, K, P)
    if window is not None:
        causal &= row > row[:, None] - window
        seen &= row > splits[..., None] - window
    own = torch.arange(canvas_rows, device=splits.device) < lengths[..., None]  # (B, K, C)
    canvases = torch.cat([seen, own], 2).flatten(0, 1)[:, None, None]
    return Masks(causal, canvases.expand(-1, -1, canvas_rows, -1).contiguous())


def rotary(decoder: Any, at: Tensor) -> dict[str, Rotary]:
    """(B, L) positions -> the rotary embedding of each kind of layer."""
    like = torch.zeros((), device=at.device)
    return {kind: decoder.rotary_emb(like, at, kind) for kind in set(decoder.text_config.layer_types)}


def run(
    model: Any, stream: Tensor, canvas: Tensor, soft: Tensor, rope: Mapping[str, Rotary], masks: Mapping[str, Masks]
) -> Tensor:
    """(B, P) and (B, K * C) ids -> (B, L, d), normalised. `soft` (B, K * C, d) is the self-conditioning signal.

    `model` has the encoder and the decoder. They differ only in the factor behind each layer, which is no weight.
    """
    decoder, encoder = model.decoder, model.encoder.language_model
    embedded = decoder.embed_tokens(torch.cat([stream, canvas], 1))
    rows = stream.shape[1]
    hidden = torch.cat([embedded[:, :rows], decoder.self_conditioning(embedded[:, rows:], soft)], 1)
    for layer, own, kind in zip(decoder.layers, encoder.layers, decoder.text_config.layer_types, strict=True):
        attended = _attend(layer.self_attn, layer.input_layernorm(hidden), rope[kind], masks[kind])
        hidden = hidden + layer.post_attention_layernorm(attended)
        factors = torch.cat([own.layer_scalar.expand(rows), layer.layer_scalar.expand(canvas.shape[1])])  # (L,)
        hidden = (hidden + _feed_forward(layer, hidden)) * factors[:, None]
    return decoder.norm(hidden)  # type: ignore[no-any-return]


def _attend(attention: Any, hidden: Tensor, rope: Rotary, masks: Masks) -> Tensor:
    shape = (*hidden.shape[:2], -1, attention.head_dim)
    queries = attention.q_proj(hidden).view(shape)
    keys = attention.k_proj(hidden).view(shape)
    values = keys if attention.v_proj is None else attention.v_proj(hidden).view(shape)
    values = attention.v_norm(values).transpose(1, 2)
    queries = rotated(attention.q_norm(queries), rope).transpose(1, 2).to(values.dtype)
    keys = rotated(attention.k_norm(keys), rope).transpose(1, 2).to(values.dtype)
    groups = queries.shape[1] // keys.shape[1]
    mixed = _mix(queries, keys.repeat_interleave(groups, 1), values.repeat_interleave(groups, 1), masks)
    return attention.o_proj(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def _mix(queries: Tensor, keys: Tensor, values: Tensor, masks: Masks) -> Tensor:
    """(B, heads, L, D) each -> (B, heads, L, D)."""
    rows, count = len(masks.stream), len(masks.canvases) // len(queries)
    batch, heads, _, size = queries.shape

    def own(all_rows: Tensor) -> Tensor:  # (B * K, heads, C, D)
        return all_rows[:, :, rows:].reshape(batch, heads, count, -1, size).transpose(1, 2).flatten(0, 1)

    def seen(all_rows: Tensor) -> Tensor:  # (B * K, heads, P + C, D)
        past = all_rows[:, None, :, :rows].expand(-1, count, -1, -1, -1).flatten(0, 1)
        return torch.cat([past, own(all_rows)], 2)

    stream = scaled_attention(queries[:, :, :rows], keys[:, :, :rows], values[:, :, :rows], masks.stream)
    canvases = scaled_attention(own(queries), seen(keys), seen(values), masks.canvases)
    return torch.cat([stream, canvases.view(batch, count, heads, -1, size).transpose(1, 2).flatten(2, 3)], 2)


def scaled_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Attention for queries that are already scaled. On a CPU, compiled, three times as fast as torch's own kernel."""
    if queries.device.type != "cpu":
        return F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=1.0)
    scores = (queries @ keys.transpose(-1, -2)).float().masked_fill(~mask, torch.finfo(torch.float32).min)
    return scores.softmax(-1).to(values.dtype) @ values


def _feed_forward(layer: Any, hidden: Tensor) -> Tensor:
    dense = layer.post_feedforward_layernorm_1(layer.mlp(layer.pre_feedforward_layernorm(hidden)))
    routed = layer.post_feedforward_layernorm_2(_experts(layer, hidden))
    return layer.post_feedforward_layernorm(dense + routed)  # type: ignore[no-any-return]


def _experts(layer: Any, hidden: Tensor) -> Tensor:
    prepared, experts = layer.pre_feedforward_layernorm_2(hidden), layer.experts
    if experts.num_experts > 1:
        flat = hidden.flatten(0, 1)
        _, weights, chosen = layer.router(flat)
        return experts(prepared.flatten(0, 1), chosen, weights).view_as(hidden)  # type: ignore[no-any-return]
    return only_expert(layer, prepared)
