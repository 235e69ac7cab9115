"""The network alone: token ids in, hidden states and logits out. It knows nothing of holes, text or files.

The weights are in the modules of transformers' `DiffusionGemmaForBlockDiffusion`. Its stock passes materialise logits
for every row of the canvas, keep only the window of a sliding layer's cache, copy keys for each head, and take many
small operations, which bound a pass over few rows; these give the same results. Shapes: B canvases, W canvas rows, n
new prefix tokens, T prefix tokens, d hidden size, H query heads, G key heads, D head size, V vocabulary size.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from inference.models.diffusion_gemma.interface import (
    ArrayOps,
    DiffusionNetwork,
    EncoderCache,
    LayerKeysValues,
    Masks,
    PrefixView,
)
from inference.models.packed import PackedWeight

AppendKeysValues = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Maps a layer's new keys and values (B, G, W, D) to everything its rows may attend to."""
Rotary = tuple[Tensor, Tensor]
"""Cosines and sines of the rows' positions, (B or 1, W, D); the sines' first half negated."""


class DiffusionGemmaNetwork(DiffusionNetwork):
    """A loaded DiffusionGemma. Every pass runs without gradients, and leaves the model as it is."""

    def __init__(self, model: Any) -> None:
        """`model`: a `DiffusionGemmaForBlockDiffusion`, already on its device and in its dtype."""
        self.model = model
        self._encoder = model.model.encoder.language_model
        self._decoder = model.model.decoder
        self._lm_head = model.lm_head
        self._softcap: float = model.final_logit_softcapping
        config = model.config.text_config
        self.layer_types: list[str] = list(config.layer_types)
        self.window: int = config.sliding_window
        self.vocabulary_size: int = config.vocab_size
        self.max_positions: int = config.max_position_embeddings
        self.hidden_size: int = config.hidden_size
        self.dtype: torch.dtype = self._lm_head.weight.dtype
        self.device: torch.device = self._lm_head.weight.device
        self.rows = ArrayOps()

    @torch.inference_mode()
    def encode(self, ids: Tensor, cache: EncoderCache) -> Tensor:
        past, new = cache.length, ids.shape[1]
        positions = torch.arange(past, past + new, device=self.device)[None]
        return self.encode_rows(ids, positions, self.causal_masks(past, new), cache)

    def encode_rows(self, ids: Tensor, positions: Tensor, masks: Masks, cache: EncoderCache) -> Tensor:
        """The layers of the causal pass."""
        return self._run(self._encoder, self._encoder.embed_tokens(ids), positions, masks, cache)

    @torch.inference_mode()
    def decode(self, canvas: Tensor, soft: Tensor | None, prefix: PrefixView, valid: Tensor | None = None) -> Tensor:
        positions = torch.arange(prefix.length, prefix.length + canvas.shape[1], device=self.device)[None]
        return self.decode_rows(canvas, soft, positions, self.canvas_masks(valid, prefix.length), prefix)

    def decode_rows(
        self, canvas: Tensor, soft: Tensor | None, positions: Tensor, masks: Masks, prefix: PrefixView
    ) -> Tensor:
        """The layers of the denoising pass; `masks` (B, 1, 1, rows it sees)."""
        hidden = self._conditioned(self._decoder.embed_tokens(canvas), soft)
        return self._run(self._decoder, hidden, positions, masks, prefix)

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        return torch.tanh(self._lm_head(hidden).to(torch.float32) / self._softcap) * self._softcap

    @torch.inference_mode()
    def expected_embeddings(self, logits: Tensor, probabilities: Tensor) -> Tensor:
        """The self-conditioning signal (N, d) of rows with these logits (N, V) and their float32 softmax."""
        embedding = self._decoder.embed_tokens
        if self.dtype != torch.float32:
            probabilities = logits.to(self.dtype).softmax(-1, dtype=torch.float32).to(self.dtype)
        return (probabilities @ embedding.weight) * embedding.embed_scale.to(self.dtype)  # type: ignore[no-any-return]

    @torch.inference_mode()
    def certain_embeddings(self, ids: Tensor) -> Tensor:
        return self._decoder.embed_tokens(ids)  # type: ignore[no-any-return]

    def empty_layers(self) -> list[LayerKeysValues]:
        views = []
        for layer in self._encoder.layers:
            attention = layer.self_attn
            heads = attention.k_proj.out_features // attention.head_dim
            rows = torch.empty((1, heads, 0, attention.head_dim), dtype=self.dtype, device=self.device)
            views.append(LayerKeysValues(rows, rows))
        return views

    def _conditioned(self, embedded: Tensor, soft: Tensor | None) -> Tensor:
        """(B, W, d) embeddings and self-conditioning signal -> the input of the decoder's first layer."""
        signal = self._decoder.self_conditioning
        if soft is not None:  # no signal adds nothing
            normed = rms_norm(signal.pre_norm, soft)
            gated = signal.act_fn(signal.gate_proj(normed)) * signal.up_proj(normed)
            embedded = embedded + signal.down_proj(gated)
        return rms_norm(signal.post_norm, embedded)

    def _run(self, stack: Any, hidden: Tensor, positions: Tensor, masks: Masks, cache: EncoderCache) -> Tensor:
        """The layers of the encoder or of the decoder after the rows of `cache`, and the last norm."""
        rotary = {}
        for kind in set(self.layer_types):
            cosine, sine = stack.rotary_emb(hidden, positions, kind)
            sine[..., : sine.shape[-1] // 2].neg_()
            rotary[kind] = cosine, sine
        for layer_index, (layer, kind) in enumerate(zip(stack.layers, self.layer_types, strict=True)):
            append = partial(cache.update, layer_index=layer_index)
            hidden = _layer(layer, hidden, rotary[kind], masks[kind], append)
        return rms_norm(stack.norm, hidden)


def rms_norm(norm: Any, rows: Tensor) -> Tensor:
    """Applies a `DiffusionGemmaRMSNorm` to rows, in float32 as the stock one: x / rms(x) * weight."""
    return functional.rms_norm(rows, rows.shape[-1:], norm.weight if norm.with_scale else None, norm.eps)


def apply_rotary(heads: Tensor, rotary: Rotary) -> Tensor:
    """(B, W, heads, D), rotated by position."""
    cosine, sine = (part[:, :, None] for part in rotary)
    return heads * cosine + heads.roll(heads.shape[-1] // 2, -1) * sine


def _layer(layer: Any, hidden: Tensor, rotary: Rotary, mask: Tensor | None, append: AppendKeysValues) -> Tensor:
    """(B, W, d) -> (B, W, d)."""
    attended = _attention(layer.self_attn, rms_norm(layer.input_layernorm, hidden), rotary, mask, append)
    hidden = hidden + rms_norm(layer.post_attention_layernorm, attended)
    dense = layer.mlp(rms_norm(layer.pre_feedforward_layernorm, hidden))
    routed = _experts_output(layer, hidden.flatten(0, 1)).view_as(hidden)
    both = rms_norm(layer.post_feedforward_layernorm_1, dense) + rms_norm(layer.post_feedforward_layernorm_2, routed)
    output: Tensor = hidden + rms_norm(layer.post_feedforward_layernorm, both)
    return output * layer.layer_scalar  # type: ignore[no-any-return]


def _attention(attention: Any, normed: Tensor, rotary: Rotary, mask: Tensor | None, append: AppendKeysValues) -> Tensor:
    """(B, W, d) -> (B, W, d)."""
    shape = (*normed.shape[:2], -1, attention.head_dim)
    queries = attention.q_proj(normed).view(shape)
    keys = attention.k_proj(normed).view(shape)
    values = keys if attention.v_proj is None else attention.v_proj(normed).view(shape)
    queries = apply_rotary(rms_norm(attention.q_norm, queries), rotary).transpose(1, 2)
    keys = apply_rotary(rms_norm(attention.k_norm, keys), rotary).transpose(1, 2)
    values = rms_norm(attention.v_norm, values).transpose(1, 2)
    attn_output = grouped_query_attention(queries, *append(keys, values), mask, attention.scaling)
    return attention.o_proj(attn_output.transpose(1, 2).reshape(*normed.shape[:2], -1))  # type: ignore[no-any-return]


def grouped_query_attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """(B, H, W, D) queries over (B, G, T, D) keys and values -> (B, H, W, D). `mask`: (B or 1, 1, W or 1, T)."""
    batch, heads, rows, size = queries.shape
    kv_group_size = heads // keys.shape[1]
    if mask is not None and mask.shape[2] > 1 and kv_group_size > 1:
        mask = mask.repeat(1, 1, kv_group_size, 1)
    # The heads that share a key head become rows of one head, (B, G, H / G * W, D), which copies no keys. torch and
    # transformers copy them for each head, 8-fold on the released full layers.
    stacked = queries.reshape(batch, keys.shape[1], kv_group_size * rows, size)
    attn_output = functional.scaled_dot_product_attention(stacked, keys, values, attn_mask=mask, scale=scale)
    return attn_output.reshape(queries.shape)


def _experts_output(layer: Any, rows: Tensor) -> Tensor:
    """The experts' output for rows (B * W, d)."""
    experts = layer.experts
    normed = rms_norm(layer.pre_feedforward_layernorm_2, rows)
    if experts.num_experts > 1 or isinstance(experts.gate_up_proj, PackedWeight):
        return experts(normed, *_route(layer.router, rows))  # type: ignore[no-any-return]
    gate, up = functional.linear(normed, experts.gate_up_proj[0]).chunk(2, -1)
    output = functional.linear(experts.act_fn(gate) * up, experts.down_proj[0])
    return output * layer.router.per_expert_scale[0]  # type: ignore[no-any-return]


def _route(router: Any, rows: Tensor) -> tuple[Tensor, Tensor]:
    """(n, d) -> for each row its k experts and their weights, both (n, k)."""
    scaled = rms_norm(router.norm, rows) * router.scale * router.scalar_root_size
    probabilities = functional.softmax(router.proj(scaled), dim=-1, dtype=torch.float32)
    weights, chosen = torch.topk(probabilities, k=router.config.top_k_experts, dim=-1)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return chosen, weights * router.per_expert_scale[chosen]
