"""The encoded prefix of a request, in the `PrefixCache`: the full history of every layer's keys and values.

A sliding layer gets a view of its window. `ArrayOps` handles the arrays of torch or MLX.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from inference.models.diffusion_gemma.interface import (
    Array,
    ArrayOps,
    DiffusionNetwork,
    LayerKeysValues,
    PrefixView,
    first_visible_row,
)
from inference.models.prefix_cache import PrefixCache

_SPARE_ROWS, _SPARE_SHARE = 64, 8
"""A growing buffer gets room for this many more rows, or for this part of its rows: typing rarely copies it."""
_CHUNK_TOKENS = 512
"""How many tokens to encode per pass, so that no step of a request takes long."""


@dataclass(eq=False)
class EncodedKeysValues:
    """The keys and values of one token sequence, per layer (1, heads, capacity, head size): a `CacheEntry`."""

    layers: list[LayerKeysValues]
    rows: ArrayOps
    ids: list[int] = field(default_factory=list)
    approximate_from: int | None = None

    def truncate(self, length: int) -> None:
        del self.ids[length:]

    def size_bytes(self) -> int:
        return sum(int(layer.keys.nbytes) + int(layer.values.nbytes) for layer in self.layers)

    def copied(self, length: int, _capacity: int) -> "EncodedKeysValues":
        """See `CacheEntry`. Has no spare room: `append` makes it."""
        pairs = ((self._copied(layer.keys, length), self._copied(layer.values, length)) for layer in self.layers)
        return EncodedKeysValues([LayerKeysValues(*pair) for pair in pairs], self.rows, self.ids[:length])

    def append(self, keys: Array, values: Array, layer_index: int, length: int) -> None:
        """Writes the rows of one layer after its first `length`. Views of a buffer stay valid."""
        layer = self.layers[layer_index]
        pairs = ((layer.keys, keys), (layer.values, values))
        self.layers[layer_index] = LayerKeysValues(*(_append(self.rows, buffer, new, length) for buffer, new in pairs))

    def _copied(self, buffer: Array, length: int) -> Array:
        empty = self.rows.empty_like(buffer, 0)
        return self.rows.concatenate(empty, buffer[:, :, :length]) if length else empty


def new_prefix_cache(network: DiffusionNetwork, max_bytes: int) -> PrefixCache[EncodedKeysValues]:
    return PrefixCache(EncodedKeysValues(network.empty_layers(), network.rows), max_bytes)


class EncodedPrefix:
    """A prefix that a request uses and, until all its tokens are encoded, extends: an `EncoderCache`.

    `reused_tokens` were cached before. It must be closed.
    """

    def __init__(
        self,
        network: DiffusionNetwork,
        cache: PrefixCache[EncodedKeysValues],
        ids: Sequence[int],
        *,
        ahead: bool = False,
    ) -> None:
        self._network = network
        self._cache = cache
        self._ids = ids
        self._cached = cache.acquire(ids, ahead=ahead)
        self._cached.is_growing = self._cached.length < len(ids)
        self._views: dict[int, PrefixView] = {}
        self.reused_tokens = self._cached.length

    @property
    def length(self) -> int:
        return self._cached.length

    def prefill(self) -> Iterator[int]:
        """Encodes the rest of its tokens, at most 512 at each `next`, which returns how many are left."""
        while self.length < len(self._ids):
            chunk = self._ids[self.length : self.length + _CHUNK_TOKENS]
            self._network.encode(torch.tensor([list(chunk)], device=self._network.device), self)
            self.commit(chunk)
            yield len(self._ids) - self.length

    def update(self, keys: Array, values: Array, layer_index: int) -> tuple[Array, Array]:
        """See `EncoderCache`. Stores the rows, of one sequence."""
        self._cached.entry.append(keys, values, layer_index, self.length)
        return self._rows(layer_index, self.length, self.length + keys.shape[2])

    def commit(self, ids: Sequence[int]) -> None:
        """Counts these tokens as encoded, after their rows were written in every layer."""
        self._cached.entry.ids[self.length :] = ids
        self._cached.length += len(ids)
        self._cached.is_growing = self.length < len(self._ids)
        self._views.clear()

    def view(self, length: int | None = None) -> PrefixView:
        """The first `length` tokens (None: all) for the decoder.

        Valid until the prefix is closed. Returns the same view until tokens are added, so that a network can reuse
        what it derives from it.
        """
        end = self.length if length is None else length
        if end not in self._views:
            layers = [LayerKeysValues(*self._rows(index, end, end)) for index in range(len(self._cached.entry.layers))]
            self._views[end] = PrefixView(layers, end, self._network.rows)
        return self._views[end]

    def _rows(self, layer_index: int, past: int, end: int) -> tuple[Array, Array]:
        layer = self._cached.entry.layers[layer_index]
        first = first_visible_row(self._network.layer_types[layer_index], past, self._network.window)
        return layer.keys[:, :, first:end], layer.values[:, :, first:end]

    def close(self) -> None:
        """Releases the cache entry. Views of this prefix must not be used afterwards."""
        self._views.clear()
        self._cache.release(self._cached)


def _append(rows: ArrayOps, buffer: Array, new: Array, length: int) -> Array:
    """Writes `new` (1, heads, n, size) at row `length`, in a larger buffer if need be; old views stay valid."""
    end = length + new.shape[2]
    if buffer.shape[2] < end:
        grown = rows.empty_like(new, end + max(_SPARE_ROWS, end // _SPARE_SHARE) if length else end)
        if length:
            grown[:, :, :length] = buffer[:, :, :length]
        buffer = grown
    buffer[:, :, length:end] = new
    return buffer
