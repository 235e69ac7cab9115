"""The network alone: token ids in, hidden states and logits out. It knows nothing of holes, text or files.

The weights and layers are those of transformers' `DiffusionGemmaForBlockDiffusion`; the stock passes materialise logits
for every row of the canvas and keep only the window of a sliding layer's cache. The subclasses (fused.py, packed.py,
static_shapes.py) give the same results faster; fast_passes.py chooses one. Shapes: B canvases, W canvas rows, n new
prefix tokens, T prefix tokens, d hidden size, V vocabulary size.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from inference.models.diffusion_gemma.passes import ArrayRows, EncoderCache, LayerView, PrefixView, TorchRows, first_row

MaskOf = Callable[[str], Tensor | None]
"""Maps a kind of layer to its mask, (B, 1, rows of queries, visible rows), 1 row if all see the same; None: sees all.
"""


class Network:
    """A loaded DiffusionGemma (`Passes`). Every pass runs without gradients, and leaves the model as it is."""

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
        self.canvas_dtype: torch.dtype = self.dtype
        """The dtype for multiplying the matrices of canvas passes."""
        self.device: torch.device = self._lm_head.weight.device
        self.rows: ArrayRows = TorchRows()

    @torch.inference_mode()
    def encode(self, ids: Tensor, cache: EncoderCache) -> Tensor:
        past, new = cache.length, ids.shape[1]
        hidden = self._encoder.embed_tokens(ids)
        positions = torch.arange(past, past + new, device=self.device)[None]
        masks = {kind: self.causal_mask(past, new, kind) for kind in set(self.layer_types)}
        return self._run(self._encoder, hidden, positions, masks.__getitem__, cache)

    @torch.inference_mode()
    def decode(self, canvas: Tensor, soft: Tensor | None, prefix: PrefixView, valid: Tensor | None = None) -> Tensor:
        positions = torch.arange(prefix.length, prefix.length + canvas.shape[1], device=self.device)[None]
        return self.decode_rows(canvas, soft, positions, self.canvas_mask(valid, prefix.length), prefix)

    def prepare(self) -> bool:
        return False

    def decode_rows(
        self, canvas: Tensor, soft: Tensor | None, positions: Tensor, mask_of: MaskOf, prefix: PrefixView
    ) -> Tensor:
        """The layers of the denoising pass; `mask_of` gives a layer kind its mask (B, 1, 1, rows it sees) or None."""
        hidden = self._conditioned(self._decoder.embed_tokens(canvas), soft)
        return self._run(self._decoder, hidden, positions, mask_of, prefix)

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        return self._capped(self._lm_head(hidden))

    @torch.inference_mode()
    def canvas_logits(self, hidden: Tensor) -> Tensor:
        return self.logits(hidden)

    def _capped(self, raw: Tensor) -> Tensor:
        return torch.tanh(raw.to(torch.float32) / self._softcap) * self._softcap

    @torch.inference_mode()
    def expected_embeddings(self, logits: Tensor, probabilities: Tensor) -> Tensor:
        """The self-conditioning signal (N, d) of rows with these logits (N, V) and their float32 softmax."""
        embedding = self._decoder.embed_tokens
        if self.dtype != torch.float32:
            probabilities = logits.to(self.dtype).softmax(-1, dtype=torch.float32).to(self.dtype)
        return (probabilities @ embedding.weight) * embedding.embed_scale.to(self.dtype)  # type: ignore[no-any-return]

    @torch.inference_mode()
    def token_embeddings(self, ids: Tensor) -> Tensor:
        return self._decoder.embed_tokens(ids)  # type: ignore[no-any-return]

    def empty_layers(self, batch: int) -> list[LayerView]:
        views = []
        for layer in self._encoder.layers:
            attention = layer.self_attn
            heads = attention.k_proj.out_features // attention.head_dim
            rows = torch.empty((batch, heads, 0, attention.head_dim), dtype=self.dtype, device=self.device)
            views.append(LayerView(rows, rows))
        return views

    @property
    def token_bytes(self) -> int:
        rows = sum(view.keys.shape[1] * view.keys.shape[3] for view in self.empty_layers(1))
        return int(2 * rows * self.dtype.itemsize)

    def _conditioned(self, embedded: Tensor, soft: Tensor | None) -> Tensor:
        """(B, W, d) embeddings and self-conditioning signal -> the input of the decoder's first layer."""
        signal = torch.zeros_like(embedded) if soft is None else soft
        return self._decoder.self_conditioning(embedded, signal)  # type: ignore[no-any-return]

    def _run(self, stack: Any, hidden: Tensor, positions: Tensor, mask_of: MaskOf, cache: Any) -> Tensor:
        """The layers of the encoder, which write into `cache`, or of the decoder, which read it; and the last norm."""
        rotary = {kind: stack.rotary_emb(hidden, positions, kind) for kind in set(self.layer_types)}
        for layer, kind in zip(stack.layers, self.layer_types, strict=True):
            hidden = layer(
                hidden,
                position_embeddings=rotary[kind],
                attention_mask=mask_of(kind),
                position_ids=positions,
                past_key_values=cache,
            )
        return stack.norm(hidden)  # type: ignore[no-any-return]

    def causal_mask(self, past: int, new: int, kind: str) -> Tensor:
        """(1, 1, n, rows the layer sees): a token sees itself and everything before it, within the layer's window."""
        first = first_row(kind, past, self.window)
        query = torch.arange(past, past + new, device=self.device)[:, None]
        key = torch.arange(first, past + new, device=self.device)[None]
        allowed = key <= query
        if kind == "sliding_attention":
            allowed &= key > query - self.window
        return allowed[None, None]

    def canvas_mask(self, valid: Tensor | None, past: int) -> MaskOf:
        """Masks (B, 1, 1, rows the layer sees), or None if every row of the canvas is valid."""
        if valid is None:
            return lambda _kind: None
        masks = {}
        for kind in set(self.layer_types):
            seen = torch.nn.functional.pad(valid, (past - first_row(kind, past, self.window), 0), value=True)
            masks[kind] = seen[:, None, None]
        return masks.__getitem__
