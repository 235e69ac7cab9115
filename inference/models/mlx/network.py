"""DiffusionGemma's passes, computed by MLX with mlx-vlm's layers: what diffusion_gemma/network.py does with torch.

mlx-vlm's own generation knows no pinned rows, and its caches forget what lies before a sliding window. So only its
encoder and its decoder run here, on the keys and values of our prefix cache, which makes its own masks. Shapes: B
canvases, W canvas rows, N rows of all, n new prefix tokens, K rows that a layer sees, d hidden, V vocabulary size.
"""

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import torch
from torch import Tensor

from inference.models.diffusion_gemma.interface import (
    ArrayOps,
    DiffusionNetwork,
    EncoderCache,
    LayerKeysValues,
    PrefixView,
)


class MlxDiffusionNetwork(DiffusionNetwork):
    """A loaded DiffusionGemma. MLX computes when its arrays become tensors."""

    def __init__(self, model: Any) -> None:
        """`model`: mlx-vlm's, with its weights."""
        self._encoder = model.model.encoder
        self._decoder = model.model.decoder
        self._embedding = self._decoder.embed_tokens
        self._layers = [layer.self_attn for layer in self._decoder.layers]
        self._softcap: float = model.final_logit_softcapping
        config = model.config.text_config
        self.layer_types: list[str] = list(config.layer_types)
        self.window: int = config.sliding_window
        self.vocabulary_size: int = config.vocab_size
        self.device = torch.device("cpu")
        self.dtype: mx.Dtype = self._decoder.norm.weight.dtype
        self.rows: ArrayOps = MlxArrayOps()

    def encode(self, ids: Tensor, cache: EncoderCache) -> Tensor:
        """See `DiffusionNetwork`. The keys and values are computed when this returns."""
        masks = {kind: to_mlx_array(mask[0, 0]) for kind, mask in self.causal_masks(cache.length, ids.shape[1]).items()}
        layers = [_EncodedLayer(cache, index, masks[kind]) for index, kind in enumerate(self.layer_types)]
        hidden, _ = self._encoder(to_mlx_array(ids), cache=layers)
        return to_torch_tensor(hidden)

    def decode(self, canvas: Tensor, soft: Tensor | None, prefix: PrefixView, valid: Tensor | None = None) -> Tensor:
        masks = self.canvas_masks(valid, prefix.length)
        hidden = self._decoder(
            to_mlx_array(canvas),
            cache=[_DecodedLayer(prefix, layer, len(canvas)) for layer in prefix.layers],
            self_conditioning_embeddings=None if soft is None else to_mlx_array(soft),
            decoder_attention_mask={kind: mask if mask is None else to_mlx_array(mask) for kind, mask in masks.items()},
        )
        return to_torch_tensor(hidden)

    def logits(self, hidden: Tensor) -> Tensor:
        raw = self._embedding.as_linear(to_mlx_array(hidden)).astype(mx.float32)
        return to_torch_tensor(mx.tanh(raw / self._softcap) * self._softcap)

    def expected_embeddings(self, logits: Tensor, probabilities: Tensor) -> Tensor:
        """See `DiffusionNetwork`. Packed embeddings are multiplied as they are, as mlx-vlm does for whole canvases."""
        table = self._embedding
        weights = to_mlx_array(probabilities).astype(self.dtype)
        if not isinstance(table, nn.QuantizedEmbedding):
            return to_torch_tensor(weights @ table.weight * self._decoder.embed_scale)
        sums = mx.quantized_matmul(
            weights,
            table.weight,
            table.scales,
            table.biases,
            transpose=False,
            group_size=table.group_size,
            bits=table.bits,
            mode=table.mode,
        )
        return to_torch_tensor(sums * self._decoder.embed_scale)

    def certain_embeddings(self, ids: Tensor) -> Tensor:
        return to_torch_tensor(self._embedding(to_mlx_array(ids)) * self._decoder.embed_scale)

    def empty_layers(self) -> list[LayerKeysValues]:
        empty = (mx.zeros((1, layer.n_kv_heads, 0, layer.head_dim), self.dtype) for layer in self._layers)
        return [LayerKeysValues(rows, rows) for rows in empty]


class _EncodedLayer:
    """One layer of an `EncoderCache`, as mlx-vlm's encoder uses a cache."""

    def __init__(self, cache: EncoderCache, index: int, mask: mx.array) -> None:
        self._cache = cache
        self._index = index
        self._mask = mask
        self.offset = cache.length
        self.keys = ()
        """Not None: `offset` tokens were read before."""

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Appends the new rows to the cache; returns all that the layer sees."""
        return self._cache.update(keys, values, self._index)

    def make_mask(self, _count: int, **_how: object) -> mx.array:
        return self._mask


class _DecodedLayer:
    """One layer of a prefix, as mlx-vlm's decoder reads a cache."""

    def __init__(self, prefix: PrefixView, layer: LayerKeysValues, batch: int) -> None:
        self.offset = prefix.length
        self.keys = layer.keys
        self.decoder_state = prefix.rows.repeat(layer.keys, batch), prefix.rows.repeat(layer.values, batch)


def to_torch_tensor(array: mx.array) -> Tensor:
    """The array, computed, as a tensor in the CPU's memory; a view of the same numbers."""
    if array.dtype == mx.bfloat16:  # NumPy has no such numbers: they cross as their bits
        return torch.from_numpy(np.asarray(array.view(mx.uint16))).view(torch.bfloat16)
    return torch.from_numpy(np.asarray(array))


def to_mlx_array(tensor: Tensor) -> mx.array:
    if tensor.dtype == torch.bfloat16:
        return mx.array(tensor.contiguous().view(torch.uint16).numpy()).view(mx.bfloat16)
    return mx.array(tensor.numpy())


class MlxArrayOps(ArrayOps):
    """For MLX arrays. An array that shares its buffer with another is copied on writing."""

    def empty_like(self, like: mx.array, count: int) -> mx.array:
        return mx.zeros((*like.shape[:2], count, like.shape[3]), like.dtype)

    def repeat(self, rows: mx.array, batch: int) -> mx.array:
        return mx.broadcast_to(rows, (batch, *rows.shape[1:]))

    def concatenate(self, first: mx.array, second: mx.array) -> mx.array:
        return mx.concatenate([first, second], axis=2)
