"""Caches for several continuations of one prefix, which share a single copy of the prefix's rows.

`append` returns only the continuations' own rows, for a network that attends to both parts; `update` joins them for the
layers of transformers. Shapes: B continuations, G key heads, T rows of the prefix, n new rows, D head size.
"""

import torch
from torch import Tensor

from inference.models.diffusion_gemma.passes import Array, ArrayRows, LayerView, PrefixView


class ScoringCache:
    """An `EncoderCache` for complete continuations: it stores nothing."""

    def __init__(self, prefix: PrefixView, rows: ArrayRows) -> None:
        self.length, self._rows = prefix.length, rows
        self.prefix_layers = prefix.layers
        """(1, G, T, D) for each layer."""

    def append(self, keys: Array, values: Array, layer_index: int) -> LayerView:
        """One layer's new rows (B, G, n, D) -> the continuations' own rows, in order."""
        return LayerView(keys, values)

    def update(self, keys: Array, values: Array, layer_index: int) -> tuple[Array, Array]:
        """The same preceded by the prefix's rows, for each continuation."""
        own, prefix = self.append(keys, values, layer_index), self.prefix_layers[layer_index]
        return self._joined(prefix.keys, own.keys), self._joined(prefix.values, own.values)

    def _joined(self, prefix: Array, own: Array) -> Array:
        return self._rows.joined(self._rows.repeated(prefix, own.shape[0]), own)


class ContinuationCache(ScoringCache):
    """An `EncoderCache` for continuations that grow together, token by token."""

    def __init__(self, prefix: PrefixView, rows: ArrayRows, count: int, room: int) -> None:
        """Each of `count` continuations may get `room` tokens."""
        super().__init__(prefix, rows)

        def empty(like: Array) -> Array:
            return rows.empty(rows.repeated(like, count), room)

        self._own = [LayerView(empty(layer.keys), empty(layer.values)) for layer in prefix.layers]
        self._grown = 0

    def append(self, keys: Array, values: Array, layer_index: int) -> LayerView:
        """See `ScoringCache`; with the rows written so far."""
        own, end = self._own[layer_index], self._grown + keys.shape[2]
        own.keys[:, :, self._grown : end] = keys
        own.values[:, :, self._grown : end] = values
        return LayerView(own.keys[:, :, :end], own.values[:, :, :end])

    def keep(self, parents: Tensor) -> None:
        """(B,) each continuation becomes a copy of the one at that number."""
        if torch.equal(parents, torch.arange(len(parents), device=parents.device)):
            return
        for own in self._own:
            for buffer in (own.keys, own.values):
                buffer[:, :, : self._grown] = self._rows.chosen(buffer[:, :, : self._grown], parents)

    def grow(self, count: int) -> None:
        """Counts `count` more tokens, whose rows are written in every layer; a negative count drops the last ones."""
        self.length += count
        self._grown += count
