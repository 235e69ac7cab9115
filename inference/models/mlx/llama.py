"""Llama's layers over cached keys and values, computed by MLX: what llama/network.py does with torch.

On a CPU everything is float32. On a GPU hidden states are float32 and matrix products have 16 bits. In float16 each row
is divided by its largest absolute value before a product and multiplied by it afterwards: Qwen2 has activations beyond
the range of float16. This is untested on a GPU. On a CPU in 16 bits, the logits of Qwen2.5-Coder 0.5B moved by .001
with sums in float32, as on a GPU, and by .04 with MLX's sums in float16.

Shapes: n new tokens, T tokens that they see, H query heads, G heads of keys and values, D their size, d the width, V
the vocabulary, (O, I) a matrix.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx
import torch
from torch import Tensor

from inference.models.gguf.affine import GROUP_SIZE
from inference.models.llama.causal import CausalNetwork, KvCache
from inference.models.llama.config import LlamaConfig
from inference.models.mlx.network import to_torch_tensor

_LEAST = 1e-30
_FREE_ROWS = 4


@dataclass(frozen=True)
class DenseMatrix:
    """(O, I) weights in the dtype of the computation."""

    weight: mx.array

    def __call__(self, rows: mx.array) -> mx.array:
        return rows @ self.weight.T

    def rows(self, numbers: mx.array) -> mx.array:
        """(n,) -> these rows of the matrix, float32 (n, I)."""
        return self.weight[numbers].astype(mx.float32)


@dataclass(frozen=True)
class PackedMatrix:
    """(O, I) weights in the format of `PackedWeight`."""

    words: mx.array  # uint32 (O, I * bits / 32)
    scales: mx.array  # float16 (O, I / 32)
    biases: mx.array  # float16 (O, I / 32)
    bits: int

    def __call__(self, rows: mx.array) -> mx.array:
        return mx.quantized_matmul(rows, self.words, self.scales, self.biases, group_size=GROUP_SIZE, bits=self.bits)

    def rows(self, numbers: mx.array) -> mx.array:
        """(n,) -> these rows of the matrix, float32 (n, I)."""
        scales, biases = (array[numbers].astype(mx.float32) for array in (self.scales, self.biases))
        return mx.dequantize(self.words[numbers], scales, biases, group_size=GROUP_SIZE, bits=self.bits)


Matrix = DenseMatrix | PackedMatrix


class ScaledRows(NamedTuple):
    """Rows (n, I) in the dtype of the computation, and the factor (n, 1) by which they were divided, if any."""

    rows: mx.array
    factor: mx.array | None


@dataclass(frozen=True)
class Projection:
    """The projection of hidden states to queries, keys or values."""

    matrix: Matrix
    bias: mx.array | None
    head_norm: mx.array | None  # (D,)


@dataclass(frozen=True)
class MlxLayer:
    norm: mx.array  # (d,)
    queries: Projection
    keys: Projection
    values: Projection
    out: Matrix  # (d, H * D)
    mlp_norm: mx.array  # (d,)
    gate: Matrix
    up: Matrix
    down: Matrix


class MlxKvCache(KvCache):
    """The keys of a layer, then its values, each (1, G, capacity, D), for one layer after the other."""

    def __init__(self, arrays: list[mx.array]) -> None:
        super().__init__()
        self.arrays = arrays

    def append_to_layer(self, layer: int, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Writes (1, G, n, D) after the rows of a layer; returns all of both, (1, G, T, D). `ids` does not change."""
        begin, end = len(self.ids), len(self.ids) + keys.shape[2]
        both = self.arrays[2 * layer : 2 * layer + 2]
        for array, new in zip(both, (keys, values), strict=True):
            array[:, :, begin:end] = new.astype(array.dtype)
        return both[0][:, :, :end], both[1][:, :, :end]

    @property
    def capacity(self) -> int:
        return int(self.arrays[0].shape[2])

    def size_bytes(self) -> int:
        return sum(int(array.nbytes) for array in self.arrays)

    def write_all_layers(self, begin: int, rows: Sequence[mx.array]) -> None:
        """See `KvCache`. (1, G, n, D) for each array."""
        for array, new in zip(self.arrays, rows, strict=True):
            array[:, :, begin : begin + new.shape[2]] = new

    def resize(self, length: int, capacity: int) -> None:
        old, shape = self.arrays, self.arrays[0].shape
        self.arrays = [mx.zeros((*shape[:2], capacity, shape[3]), array.dtype) for array in old]
        if length:
            self.write_all_layers(0, [array[:, :, :length] for array in old])
        mx.eval(*self.arrays)


class MlxLlamaNetwork(CausalNetwork):
    """The stack of layers between the embedding and the logits."""

    def __init__(
        self,
        config: LlamaConfig,
        layers: Sequence[MlxLayer],
        embedding: Matrix,
        norm: mx.array,
        head: Matrix,
        periods: mx.array,
        dtype: mx.Dtype,
        *,
        is_interleaved: bool,
    ) -> None:
        """`periods` (D / 2,): the positions per radian of each rotary pair, the inverse of `inv_freq`. `dtype`: that of
        matrix products. `is_interleaved`: the rotary layout is interleaved, otherwise half-split.
        """
        self.config = config
        self.device = torch.device("cpu")
        self.on_cpu = False
        self.free_rows = _FREE_ROWS
        self._layers = layers
        self._embedding = embedding
        self._norm = norm / config.logits_scaling
        self._head = head
        self._periods = periods
        self._dtype = dtype
        self._cache_dtype = mx.float32 if dtype == mx.float32 else mx.float16
        self._is_interleaved = is_interleaved

    def empty_cache(self, capacity: int) -> MlxKvCache:
        config = self.config
        shape = (1, config.num_kv_heads, capacity, config.head_size)
        return MlxKvCache([mx.zeros(shape, self._cache_dtype) for _ in range(2 * config.num_hidden_layers)])

    def forward(self, ids: Tensor, cache: MlxKvCache, num_last: int) -> mx.array:
        """See `CausalNetwork`. Hidden states, keys and values are computed when this returns."""
        new_ids = ids[0].tolist()
        start, width = len(cache.ids), len(new_ids)
        config = self.config
        hidden = self._embedding.rows(mx.array(new_ids)) * config.embedding_multiplier  # (n, d)
        for layer_index, layer in enumerate(self._layers):
            operand = self._operand(self._normed(hidden, layer.norm))
            queries, keys, values = (self._heads(operand, part) for part in (layer.queries, layer.keys, layer.values))
            queries, keys = self._apply_rotary(queries, start), self._apply_rotary(keys, start)
            keys_values = cache.append_to_layer(layer_index, keys, values)
            if layer_index + 1 == len(self._layers):  # of the other rows, later ones read only keys and values
                hidden, queries = hidden[width - num_last :], queries[:, :, width - num_last :]
            if not len(hidden):
                break
            attended = self._operand(self._attention(queries, *keys_values))
            hidden = hidden + self._product(layer.out, attended) * config.residual_multiplier
            operand = self._operand(self._normed(hidden, layer.mlp_norm))
            gate, up = self._product(layer.gate, operand), self._product(layer.up, operand)
            inner = self._operand(gate * mx.sigmoid(gate) * up)
            hidden = hidden + self._product(layer.down, inner) * config.residual_multiplier
        last = (self._normed(hidden, self._norm) if num_last else hidden)[None]
        mx.eval(last, *cache.arrays)
        cache.ids += new_ids
        return last

    def logits(self, hidden: mx.array) -> Tensor:
        flat = hidden.reshape(-1, hidden.shape[-1])
        return to_torch_tensor(self._product(self._head, self._operand(flat))).view(*hidden.shape[:-1], -1)

    def moved_rows(self, cache: MlxKvCache, begin: int, count: int, by: int) -> list[mx.array]:
        """See `CausalNetwork`. (1, G, count, D) for each array of the cache."""
        rows = [array[:, :, begin : begin + count] for array in cache.arrays]
        for layer_index, keys in enumerate(rows[::2]):
            apart = keys.astype(mx.float32).reshape(-1, 1, self.config.head_size)  # each is row 0 of its own
            rows[2 * layer_index] = self._apply_rotary(apart, by).reshape(keys.shape).astype(keys.dtype)
        mx.eval(*rows)
        return rows

    def _normed(self, rows: mx.array, weight: mx.array) -> mx.array:
        return mx.fast.rms_norm(rows, weight, self.config.rms_norm_eps)

    def _operand(self, rows: mx.array) -> ScaledRows:
        """Converts float32 rows to the dtype of products, and scales them in float16."""
        if self._dtype != mx.float16:
            return ScaledRows(rows.astype(self._dtype), None)
        largest = mx.maximum(mx.abs(rows).max(-1, keepdims=True), _LEAST)
        return ScaledRows((rows / largest).astype(mx.float16), largest)

    def _product(self, matrix: Matrix, operand: ScaledRows) -> mx.array:
        """(n, I) -> float32 (n, O)."""
        product = matrix(operand.rows).astype(mx.float32)
        return product if operand.factor is None else product * operand.factor

    def _heads(self, operand: ScaledRows, projection: Projection) -> mx.array:
        """(n, d) -> (1, heads, n, D)."""
        rows = self._product(projection.matrix, operand)
        if projection.bias is not None:
            rows = rows + projection.bias
        heads = rows.reshape(1, len(rows), -1, self.config.head_size)
        if projection.head_norm is not None:
            heads = self._normed(heads, projection.head_norm)
        return heads.transpose(0, 2, 1, 3)

    def _apply_rotary(self, heads: mx.array, start: int) -> mx.array:
        """Applies the rotary embedding to heads (..., n, D) at positions from `start` on. Rotations add up."""
        periods = self._periods if start >= 0 else -self._periods  # on a GPU offsets are not negative
        return mx.fast.rope(
            heads,
            self.config.head_size,
            traditional=self._is_interleaved,
            base=None,
            scale=1.0,
            offset=abs(start),
            freqs=periods,
        )

    def _attention(self, queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
        """Queries (1, H, n, D), the last of T -> float32 (n, H * D)."""
        mask = "causal" if queries.shape[2] > 1 else None
        scale = self.config.attention_multiplier or self.config.head_size**-0.5
        attended = mx.fast.scaled_dot_product_attention(
            queries.astype(keys.dtype), keys, values, scale=scale, mask=mask
        )
        return attended.transpose(0, 2, 1, 3).reshape(queries.shape[2], -1).astype(mx.float32)
