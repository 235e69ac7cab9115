"""Llama's layers over cached keys and values, causal or not: written for passes of few rows on a CPU.

Queries, keys and values are one product, and so are the two sides of the MLP; the rotary layout is interleaved, for
which `interleave_rotary` orders the rows of these weights; heads that share keys are rows of one head. Sums are
float32. Shapes: B sequences, n rows of each, T rows that they see, H query heads, G heads of keys and values, D their
size, d the width, V the vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from inference.models.llama.causal import CausalNetwork, KvCache
from inference.models.llama.config import LlamaConfig
from inference.models.llama.linear import DenseLinear, Int8DynamicLinear, Int8Weight, Linear, StackedLinear
from inference.models.packed import PackedLinear
from inference.models.tensor_readers import StoredRows

EmbeddingTable = DenseLinear | Int8Weight | PackedLinear | StoredRows
Append = Callable[[int, Tensor, Tensor], Tensor]
"""Takes a layer's number and the (B, n, G, D) of some rows; returns (2, B, G, T, D) of all that they attend to."""
_EXACT_TOKENS = 64
"""Number of top tokens whose logits are recomputed in float32 if the LM head is inexact."""
_FREE_ROWS, _FREE_ROWS_DYNAMIC, _FREE_ROWS_GPU = 4, 8, 64
"""Up to this many rows take little longer than one: more with `Int8DynamicLinear`."""


@dataclass(frozen=True)
class LayerWeights:
    norm: Tensor  # (d,)
    queries_keys_values: Linear  # ((H + 2 G) * D, d)
    bias: Tensor | None  # ((H + 2 G) * D,)
    head_norms: tuple[Tensor, Tensor] | None  # (D,) of queries and of keys
    out: Linear  # (d, H * D)
    mlp_norm: Tensor  # (d,)
    gate_up: Linear
    down: Linear


class TensorKvCache(KvCache):
    """Keys and values in L layers, (L, 2, 1, G, capacity, D)."""

    def __init__(self, keys_values: Tensor) -> None:
        super().__init__()
        self.keys_values = keys_values

    def append_to_layer(self, layer: int, keys: Tensor, values: Tensor) -> Tensor:
        """Writes (1, n, G, D) after the rows of a layer; returns all, (2, 1, G, T, D). `ids` does not change."""
        begin = len(self.ids)
        seen = self.keys_values[layer, ..., : begin + keys.shape[1], :]
        seen[..., begin:, :] = torch.stack((keys, values)).transpose(2, 3)
        return seen

    @property
    def capacity(self) -> int:
        return self.keys_values.shape[-2]

    def size_bytes(self) -> int:
        return self.keys_values.nbytes

    @torch.inference_mode()
    def write_all_layers(self, begin: int, rows: Tensor) -> None:
        """See `KvCache`. Rows (L, 2, 1, G, n, D)."""
        self.keys_values[..., begin : begin + rows.shape[-2], :] = rows

    def resize(self, length: int, capacity: int) -> None:
        grown = self.keys_values.new_empty((*self.keys_values.shape[:-2], capacity, self.keys_values.shape[-1]))
        grown[..., :length, :] = self.keys_values[..., :length, :]
        self.keys_values = grown


class LlamaNetwork(CausalNetwork):
    """The stack of layers between the embedding and the logits."""

    def __init__(
        self,
        config: LlamaConfig,
        layers: Sequence[LayerWeights],
        embedding: EmbeddingTable,
        norm: Tensor,
        head: Linear,
        inv_freq: Tensor,
    ) -> None:
        """`inv_freq` (D / 2,): the angle between neighbouring positions of each pair."""
        self.config = config
        self.layers = layers
        self.embedding = embedding
        self.norm = norm / config.logits_scaling
        self.head = head
        self.device = norm.device
        self.on_cpu = norm.device.type == "cpu"
        on_cpu = _FREE_ROWS_DYNAMIC if isinstance(head, Int8DynamicLinear) else _FREE_ROWS
        self.free_rows = on_cpu if self.on_cpu else _FREE_ROWS_GPU
        self._is_exact = isinstance(head, DenseLinear) and head.weight.dtype == torch.float32
        self._attention_dtype = torch.float32 if self.on_cpu or self._is_exact else torch.bfloat16
        self._inv_freq = inv_freq

    def empty_cache(self, capacity: int) -> TensorKvCache:
        """See `CausalNetwork`. On a CPU in 16 bits, as in llama.cpp, unless exact."""
        config = self.config
        shape = (config.num_hidden_layers, 2, 1, config.num_kv_heads, capacity, config.head_size)
        dtype = torch.float16 if self.on_cpu and not self._is_exact else self._attention_dtype
        return TensorKvCache(torch.empty(shape, device=self.device, dtype=dtype))

    @torch.inference_mode()
    def forward(self, ids: Tensor, cache: TensorKvCache, num_last: int) -> Tensor:
        new_ids = ids[0].tolist()
        start = len(cache.ids)
        end = start + len(new_ids)
        positions = torch.arange(start, end, device=self.device)
        hidden = self.hidden_states(ids, positions, cache.append_to_layer, self._mask(start, end), num_last)
        cache.ids += new_ids
        return hidden

    @torch.inference_mode()
    def hidden_states(
        self, ids: Tensor, positions: Tensor, append: Append, mask: Tensor | None, num_last: int
    ) -> Tensor:
        """The hidden states (B, num_last, d), float32, of the last of the tokens (B, n) at positions (B, n) or (n,).

        They attend to what `append` returns. `mask` (n * H / G, T) is added to that attention, each row of it H / G
        times; or (B, 1, 1, T) is False at what no row sees.
        """
        batch, width = ids.shape
        rotary = self.rotary_factors(positions)
        hidden = self.embedding.rows(ids.flatten()) * self.config.embedding_multiplier  # (B * n, d)
        for layer_index, layer in enumerate(self.layers):
            normed = functional.rms_norm(hidden, layer.norm.shape, layer.norm, self.config.rms_norm_eps)
            queries, keys, values = self._heads(layer, normed.view(batch, width, -1), rotary)
            cached = append(layer_index, keys, values)
            if layer_index + 1 == len(self.layers):  # of the other rows, later ones read only keys and values
                hidden = hidden.view(batch, width, -1)[:, width - num_last :].flatten(0, 1)
                queries = queries[:, width - num_last :]
                mask = None if mask is None else mask[..., -num_last * (queries.shape[2] // keys.shape[2]) :, :]
            if not len(hidden):
                break
            hidden = layer.out(self._scale_for_residual(self._attention(queries, cached, mask)), hidden)
            normed = functional.rms_norm(hidden, layer.norm.shape, layer.mlp_norm, self.config.rms_norm_eps)
            gate, up = layer.gate_up(normed).chunk(2, -1)
            hidden = layer.down(self._scale_for_residual(functional.silu(gate).mul_(up)), hidden)
        last = hidden.view(batch, num_last, self.config.hidden_size)
        return functional.rms_norm(last, self.norm.shape, self.norm, self.config.rms_norm_eps)

    def _heads(self, layer: LayerWeights, normed: Tensor, rotary: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, n, d) -> queries (B, n, H, D), and keys and values (B, n, G, D)."""
        heads = self.config.num_attention_heads
        kv_heads = self.config.num_kv_heads
        size = normed.shape[:2]
        qkv = layer.queries_keys_values(normed.flatten(0, 1), layer.bias).float().view(*size, heads + 2 * kv_heads, -1)
        queries_keys = qkv[:, :, : heads + kv_heads]
        if layer.head_norms is not None:
            pairs = zip((queries_keys[:, :, :heads], queries_keys[:, :, heads:]), layer.head_norms, strict=True)
            normed_heads = [
                functional.rms_norm(rows, norm.shape, norm, self.config.rms_norm_eps) for rows, norm in pairs
            ]
            queries_keys = torch.cat(normed_heads, 2)
        queries_keys = apply_rotary(queries_keys, rotary)
        return queries_keys[:, :, :heads], queries_keys[:, :, heads:], qkv[:, :, heads + kv_heads :]

    def _attention(self, queries: Tensor, cached: Tensor, mask: Tensor | None) -> Tensor:
        """Queries (B, n, H, D) and what `Append` returns -> (B * n, H * D)."""
        batch, width, heads, head_size = queries.shape
        kv_heads = self.config.num_kv_heads
        grouped = queries.view(batch, width, kv_heads, heads // kv_heads, head_size).transpose(1, 2)
        grouped = grouped.reshape(batch, kv_heads, -1, head_size).to(self._attention_dtype)
        keys, values = cached.to(self._attention_dtype)
        attn_output = functional.scaled_dot_product_attention(
            grouped, keys, values, attn_mask=mask, scale=self.config.attention_multiplier
        )
        return attn_output.reshape(batch, kv_heads, width, -1).transpose(1, 2).reshape(batch * width, -1).float()

    def _scale_for_residual(self, rows: Tensor) -> Tensor:
        """Scales the rows whose product is added to the hidden states."""
        return rows if self.config.residual_multiplier == 1.0 else rows * self.config.residual_multiplier

    def _mask(self, start: int, end: int) -> Tensor | None:
        """The causal mask, (n * H / G, T), added to the attention scores."""
        width = end - start
        if width == 1:
            return None
        masked = torch.full((width, width), -torch.inf, device=self.device, dtype=self._attention_dtype).triu(1)
        kv_group_size = self.config.num_attention_heads // self.config.num_kv_heads
        return torch.cat([masked.new_zeros(width, start), masked], 1).repeat_interleave(kv_group_size, 0)

    def rotary_factors(self, positions: Tensor) -> Tensor:
        """Rotary factors e^(i · position · frequency) for positions (..., n): complex (..., n, 1, D / 2)."""
        angles = positions[..., None, None] * self._inv_freq
        return torch.polar(torch.ones_like(angles), angles)

    @torch.inference_mode()
    def moved_rows(self, cache: TensorKvCache, begin: int, count: int, by: int) -> Tensor:
        """See `CausalNetwork`. (L, 2, 1, G, count, D)."""
        rows = cache.keys_values[..., begin : begin + count, :].clone()
        rows[:, 0] = apply_rotary(rows[:, 0].float(), self.rotary_factors(torch.tensor([by], device=self.device))[0])
        return rows

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """See `CausalNetwork`. If the LM head is inexact, recomputes the top tokens in float32."""
        flat = hidden.flatten(0, -2)
        logits = self.head(flat).float()
        if not isinstance(self.head, Int8DynamicLinear | StackedLinear) and not self._is_exact:
            top_ids = logits.topk(min(_EXACT_TOKENS, logits.shape[1])).indices
            exact = torch.stack([self.head.rows(ids) @ row for ids, row in zip(top_ids, flat, strict=True)])
            logits.scatter_(1, top_ids, exact)
        return logits.view(*hidden.shape[:-1], -1)


def apply_rotary(heads: Tensor, rotary: Tensor) -> Tensor:
    """Applies the rotary embedding to (..., D). Rotations add up, so cached keys can be shifted to new positions."""
    pairs = torch.view_as_complex(heads.view(*heads.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotary).flatten(-2)


def interleave_rotary(weight: Tensor, head_size: int) -> Tensor:
    """Permutes a query or key projection from half-split to interleaved rotary layout. Attention does not change."""
    heads = weight.view(-1, 2, head_size // 2, *weight.shape[1:])
    return heads.transpose(1, 2).reshape(weight.shape)
