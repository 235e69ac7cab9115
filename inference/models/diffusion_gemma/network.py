"""The network alone: token ids in, hidden states and logits out. It knows nothing of holes, text or files.

The weights and layers are transformers' `DiffusionGemmaForBlockDiffusion`; the passes are written out here, because
the stock ones materialise logits for every row of the canvas and keep only the window of a sliding layer's cache.
Shapes: B canvases, W canvas rows, n new prefix tokens, T prefix tokens, d hidden size, V vocabulary size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


class EncoderCache(Protocol):
    """Where the encoder puts new keys and values: appends them and returns the rows the layer may look at."""

    length: int

    def update(self, keys: Tensor, values: Tensor, layer_index: int) -> tuple[Tensor, Tensor]: ...


@dataclass(frozen=True)
class LayerView:
    """The rows of one layer as transformers' decoder layers read them: (B, heads, rows, head size)."""

    keys: Tensor
    values: Tensor


@dataclass(frozen=True)
class PrefixView:
    """An encoded prefix of `length` tokens as the decoder reads it; sliding layers hold only their window."""

    layers: Sequence[LayerView]
    length: int
    is_compileable: bool = False
    """Read by transformers' decoder layers: this is no static cache."""


MaskOf = Callable[[str], Tensor | None]
Encode = Callable[[Tensor, EncoderCache], Tensor]
Decode = Callable[[Tensor, Tensor | None, PrefixView, Tensor | None], Tensor]


class Network:
    """A loaded DiffusionGemma. Every pass runs without gradients."""

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
        self.fast_decode: Decode | None = None
        """A faster `decode_plainly` for this device, where there is one (static_shapes.py, packed.py)."""
        self.fast_encode: Encode | None = None
        """A faster `encode_plainly`, where there is one (packed.py)."""
        self.half_head: Tensor | None = None
        """(V, d) the tied embedding in bfloat16, where a float32 model makes the canvas's products so (packed.py)."""
        self.dtype: torch.dtype = self._lm_head.weight.dtype
        self.device: torch.device = self._lm_head.weight.device

    def encode(self, ids: Tensor, cache: EncoderCache) -> Tensor:
        """The causal pass over the next tokens of a prefix: (B, n) ids -> (B, n, d), keys and values into `cache`."""
        return (self.fast_encode or self.encode_plainly)(ids, cache)

    @torch.inference_mode()
    def encode_plainly(self, ids: Tensor, cache: EncoderCache) -> Tensor:
        """The same by transformers' own layers."""
        past, new = cache.length, ids.shape[1]
        hidden = self._encoder.embed_tokens(ids)
        positions = torch.arange(past, past + new, device=self.device)[None]
        masks = {kind: self.causal_mask(past, new, kind) for kind in set(self.layer_types)}
        hidden = self._run(self._encoder, hidden, positions, masks.__getitem__, cache)
        return self._encoder.norm(hidden)  # type: ignore[no-any-return]

    def decode(self, canvas: Tensor, soft: Tensor | None, prefix: PrefixView, valid: Tensor | None = None) -> Tensor:
        """The denoising pass: (B, W) ids -> (B, W, d). Every row sees the prefix and the whole canvas.

        `soft` (B, W, d) is the self-conditioning signal, None on the first step. `valid` (B, W) is False at rows
        that only fill the shorter canvases of a batch; nothing attends to them.
        """
        return (self.fast_decode or self.decode_plainly)(canvas, soft, prefix, valid)

    @torch.inference_mode()
    def decode_plainly(
        self, canvas: Tensor, soft: Tensor | None, prefix: PrefixView, valid: Tensor | None = None
    ) -> Tensor:
        """The same in exactly the shape that is given."""
        positions = torch.arange(prefix.length, prefix.length + canvas.shape[1], device=self.device)[None]
        return self.decode_rows(canvas, soft, positions, self.canvas_mask(valid, prefix.length), prefix)

    def decode_rows(
        self, canvas: Tensor, soft: Tensor | None, positions: Tensor, mask_of: MaskOf, prefix: PrefixView
    ) -> Tensor:
        """The layers of the denoising pass; `mask_of` gives a layer kind its mask (B, 1, W, rows it sees) or None."""
        embedded = self._decoder.embed_tokens(canvas)
        hidden = self._decoder.self_conditioning(embedded, torch.zeros_like(embedded) if soft is None else soft)
        hidden = self._run(self._decoder, hidden, positions, mask_of, prefix)
        return self._decoder.norm(hidden)  # type: ignore[no-any-return]

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """(..., d) -> (..., V) in float32, soft-capped as the model was trained."""
        return self._capped(self._lm_head(hidden))

    @torch.inference_mode()
    def hole_logits(self, hidden: Tensor) -> Tensor:
        """The same for rows of a canvas, in the precision of its passes."""
        if self.half_head is None:
            return self.logits(hidden)
        return self._capped(torch.nn.functional.linear(hidden.to(self.half_head.dtype), self.half_head))

    def _capped(self, raw: Tensor) -> Tensor:
        return torch.tanh(raw.to(torch.float32) / self._softcap) * self._softcap

    @torch.inference_mode()
    def soft_embeddings(self, logits: Tensor, probabilities: Tensor) -> Tensor:
        """The self-conditioning signal of some rows, the expected embedding: (..., V) logits -> (..., d).

        `probabilities` are their float32 softmax, used as they are where the model computes in float32.
        """
        embedding = self._decoder.embed_tokens
        if self.half_head is not None:
            return (probabilities.to(self.half_head.dtype) @ self.half_head).float() * embedding.embed_scale  # type: ignore[no-any-return]
        if self.dtype != torch.float32:
            probabilities = logits.to(self.dtype).softmax(-1, dtype=torch.float32).to(self.dtype)
        return (probabilities @ embedding.weight) * embedding.embed_scale.to(self.dtype)  # type: ignore[no-any-return]

    @torch.inference_mode()
    def token_embeddings(self, ids: Tensor) -> Tensor:
        """The self-conditioning signal of rows whose token is certain: (...) ids -> (..., d)."""
        return self._decoder.embed_tokens(ids)  # type: ignore[no-any-return]

    def first_visible_row(self, layer_index: int, past: int) -> int:
        """The first of `past` encoded rows that the next token may look at in this layer."""
        return self.first_row(self.layer_types[layer_index], past)

    def empty_layers(self, batch: int) -> list[LayerView]:
        """What a canvas without any prefix reads: no rows in any layer."""
        views = []
        for layer in self._encoder.layers:
            attention = layer.self_attn
            heads = attention.k_proj.out_features // attention.head_dim
            rows = torch.empty((batch, heads, 0, attention.head_dim), dtype=self.dtype, device=self.device)
            views.append(LayerView(rows, rows))
        return views

    def first_row(self, kind: str, past: int) -> int:
        """The first of `past` encoded rows that the next token may look at in layers of this kind."""
        return max(0, past - self.window + 1) if kind == "sliding_attention" else 0

    def _run(self, stack: Any, hidden: Tensor, positions: Tensor, mask_of: MaskOf, cache: Any) -> Tensor:
        rotary = {kind: stack.rotary_emb(hidden, positions, kind) for kind in set(self.layer_types)}
        for layer, kind in zip(stack.layers, self.layer_types, strict=True):
            hidden = layer(
                hidden,
                position_embeddings=rotary[kind],
                attention_mask=mask_of(kind),
                position_ids=positions,
                past_key_values=cache,
            )
        return hidden

    def causal_mask(self, past: int, new: int, kind: str) -> Tensor:
        """(1, 1, n, rows the layer sees): a token sees itself and what is before it, on sliding layers the window."""
        first = self.first_row(kind, past)
        query = torch.arange(past, past + new, device=self.device)[:, None]
        key = torch.arange(first, past + new, device=self.device)[None]
        allowed = key <= query
        if kind == "sliding_attention":
            allowed &= key > query - self.window
        return allowed[None, None]

    def canvas_mask(self, valid: Tensor | None, past: int) -> MaskOf:
        """Masks (B, 1, W, rows the layer sees), or None where every row of the canvas is valid."""
        if valid is None:
            return lambda _kind: None
        masks = {}
        for kind in set(self.layer_types):
            seen = torch.nn.functional.pad(valid, (past - self.first_row(kind, past), 0), value=True)
            masks[kind] = seen[:, None, None].expand(-1, 1, valid.shape[1], -1)
        return masks.__getitem__
