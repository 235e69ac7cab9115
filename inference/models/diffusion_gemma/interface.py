"""The interface of DiffusionGemma networks of any library, for the adapter and the prefix cache.

Ids, hidden states and logits cross as torch tensors on the network's `device`; keys and values stay arrays of its own
library, (B, heads, rows, head size); both libraries slice and assign to slices alike, and `ArrayOps` covers their
differences. Shapes: B canvases, W canvas rows, N rows of all, n new prefix tokens, d hidden, V vocabulary size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

_SLIDING = "sliding_attention"
Array = Any
"""A torch tensor, or an array of another library (models/mlx)."""


Masks = Mapping[str, Tensor | None]
"""By kind of layer, (B or 1, 1, rows of queries, visible rows), 1 row if all see the same; None: sees all."""


class ArrayOps:
    """Operations on arrays (B, heads, n, size), here of torch; another library's network has its own."""

    def empty_like(self, like: Array, count: int) -> Array:
        """A new array like `like` but with `count` rows. Their contents are undefined."""
        return like.new_empty((*like.shape[:2], count, like.shape[3]))

    def repeat(self, rows: Array, batch: int) -> Array:
        """The rows (1, ...) of one sequence for each of `batch`, (B, ...), without a copy if possible."""
        return rows.expand(batch, -1, -1, -1)

    def concatenate(self, first: Array, second: Array) -> Array:
        """A new array: the rows of one, then those of the other."""
        return torch.cat((first, second), 2)


class EncoderCache(Protocol):
    """The encoded rows before new ones. It may store the new ones."""

    @property
    def length(self) -> int: ...

    def update(self, keys: Array, values: Array, layer_index: int) -> tuple[Array, Array]:
        """All keys and values that one layer's new rows (B, heads, n, head size) may attend to, in order."""


@dataclass(frozen=True)
class LayerKeysValues:
    """The rows of one layer: (1, heads, rows, head size)."""

    keys: Array
    values: Array


@dataclass(frozen=True)
class PrefixView:
    """An encoded prefix of `length` tokens: an `EncoderCache` that stores nothing.

    Sliding layers hold only their window. All canvases, or continuations, follow the same prefix.
    """

    layers: Sequence[LayerKeysValues]
    length: int
    rows: ArrayOps

    def update(self, keys: Array, values: Array, layer_index: int) -> tuple[Array, Array]:
        layer = self.layers[layer_index]
        return self._behind(layer.keys, keys), self._behind(layer.values, values)

    def _behind(self, prefix: Array, new: Array) -> Array:
        return self.rows.concatenate(self.rows.repeat(prefix, new.shape[0]), new)


class DiffusionNetwork(Protocol):
    """The passes of a loaded DiffusionGemma. None of them changes the model."""

    layer_types: list[str]
    window: int
    vocabulary_size: int
    device: torch.device
    rows: ArrayOps
    note: str = ""
    """See `ModelAdapter`."""

    def encode(self, ids: Tensor, cache: EncoderCache) -> Tensor:
        """The causal pass over the next tokens of a prefix: (B, n) ids -> (B, n, d), keys and values into `cache`."""

    def decode(self, canvas: Tensor, soft: Tensor | None, prefix: PrefixView, valid: Tensor | None = None) -> Tensor:
        """The denoising pass: (B, W) ids -> (B, W, d). Every row sees the prefix and the whole canvas.

        `soft` (B, W, d) is the self-conditioning signal, None on the first step. `valid` (B, W) is False at rows
        that only fill the shorter canvases of a batch; nothing attends to them.
        """

    def run_idle_task(self) -> bool:
        return False

    def causal_masks(self, past: int, new: int) -> dict[str, Tensor]:
        """(1, 1, n, rows the layer sees): a token sees itself and everything before it, within the layer's window."""
        query = torch.arange(past, past + new, device=self.device)[:, None]
        masks = {}
        for kind in set(self.layer_types):
            key = torch.arange(first_visible_row(kind, past, self.window), past + new, device=self.device)[None]
            allowed = key <= query
            masks[kind] = (allowed & (key > query - self.window) if kind == _SLIDING else allowed)[None, None]
        return masks

    def canvas_masks(self, valid: Tensor | None, past: int) -> Masks:
        """(B, 1, 1, rows the layer sees), or None if every row of the canvas is valid."""
        if valid is None:
            return dict.fromkeys(self.layer_types)
        masks = {}
        for kind in set(self.layer_types):
            visible = functional.pad(valid, (past - first_visible_row(kind, past, self.window), 0), value=True)
            masks[kind] = visible[:, None, None]
        return masks

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., d) -> (..., V) in float32, soft-capped as the model was trained."""

    def expected_embeddings(self, logits: Tensor, probabilities: Tensor) -> Tensor:
        """The self-conditioning signal of some rows: (N, V) logits and their softmax -> (N, d)."""

    def certain_embeddings(self, ids: Tensor) -> Tensor:
        """The self-conditioning signal of rows whose token is certain: (...) ids -> (..., d)."""

    def empty_layers(self) -> list[LayerKeysValues]:
        """An empty prefix: no rows in any layer."""


def first_visible_row(kind: str, past: int, window: int) -> int:
    """The first of `past` encoded rows that the next token may attend to in layers of this kind."""
    return max(0, past - window + 1) if kind == _SLIDING else 0
