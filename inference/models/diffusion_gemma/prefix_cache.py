"""Encoded prefixes, kept so that a keystroke costs the encoding of a few tokens and not of the whole file.

Keeps the full history of every layer's keys and values; a sliding layer gets a view of its window. All documents share
the cache: it reuses the entry with the longest common token prefix, and evicts the least recently used entries first.
An `EncodedPrefix` may read rows `[0, length)` of its buffers until it is released: rows are only appended, by the one
reader that also writes; a reader that would overwrite rows in use by another gets a copy. `rows` handles the arrays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch

from inference.models.diffusion_gemma.passes import Array, ArrayRows, LayerView, Passes, PrefixView, first_row
from inference.models.family import common_start

_SPARE_ROWS, _SPARE_SHARE = 64, 8
"""A growing buffer gets room for this many more rows, or for this part of its rows: typing rarely copies it."""
_CHUNK_TOKENS = 512
"""Encoded in one pass, so that no step of a request takes long."""

_KEEP_OTHERS_FRACTION = 0.5
"""An entry that shares less than this of its tokens belongs to another document: copy from it instead of cutting it."""


@dataclass(eq=False)
class _Entry:
    """The keys and values of one token sequence, per layer (1, heads, capacity, head size)."""

    layers: list[LayerView]
    ids: list[int] = field(default_factory=list)
    readers: list["EncodedPrefix"] = field(default_factory=list)

    def size_bytes(self) -> int:
        return sum(int(layer.keys.nbytes) + int(layer.values.nbytes) for layer in self.layers)


class EncodedPrefix:
    """A readable cache entry, which grows until it holds its tokens: an `EncoderCache`. `reused` were there before."""

    def __init__(self, cache: "PrefixCache", entry: _Entry, ids: Sequence[int], reused: int) -> None:
        self.length = reused
        self.reused = reused
        self._cache = cache
        self._entry = entry
        self._ids = ids
        self._views: dict[int, PrefixView] = {}

    @property
    def is_whole(self) -> bool:
        """Whether it adds no more tokens, so that others may build on the same rows."""
        return self.length >= len(self._ids)

    def encode(self) -> Iterator[int]:
        """Encodes the rest of its tokens, at most 512 at each `next`, which returns how many are left."""
        while not self.is_whole:
            chunk = self._ids[self.length : self.length + _CHUNK_TOKENS]
            self._cache.network.encode(torch.tensor([list(chunk)], device=self._cache.network.device), self)
            self.commit(chunk)
            yield len(self._ids) - self.length

    def update(self, keys: Array, values: Array, layer_index: int) -> tuple[Array, Array]:
        """See `EncoderCache`. Stores the rows, of one sequence."""
        rows, layers = self._cache.network.rows, self._entry.layers
        pairs = ((layers[layer_index].keys, keys), (layers[layer_index].values, values))
        layers[layer_index] = LayerView(*(_append(rows, buffer, new, self.length) for buffer, new in pairs))
        return self._rows(layer_index, self.length, self.length + keys.shape[2])

    def commit(self, ids: Sequence[int]) -> None:
        """The rows of these tokens are written in every layer and count from now on."""
        self._entry.ids[self.length :] = ids
        self.length += len(ids)
        self._views.clear()

    def view(self, length: int | None = None) -> PrefixView:
        """The first `length` tokens (None: all) for the decoder.

        Valid until the prefix is released. Returns the same view until tokens are added, so that a network can reuse
        what it derives from it.
        """
        end = self.length if length is None else length
        if end not in self._views:
            layers = [LayerView(*self._rows(index, end, end)) for index in range(len(self._entry.layers))]
            self._views[end] = PrefixView(layers, end, self._cache.network.rows)
        return self._views[end]

    def _rows(self, layer_index: int, past: int, end: int) -> tuple[Array, Array]:
        layer, network = self._entry.layers[layer_index], self._cache.network
        first = first_row(network.layer_types[layer_index], past, network.window)
        return layer.keys[:, :, first:end], layer.values[:, :, first:end]

    def release(self) -> None:
        """Returns the rows. Views of this prefix must not be used afterwards."""
        self._views.clear()
        if self in self._entry.readers:
            self._entry.readers.remove(self)
        self._cache.evict()


class PrefixCache:
    """All encoded prefixes of one network, within a memory budget."""

    def __init__(self, network: Passes, budget_bytes: int) -> None:
        """`budget_bytes`: the limit for unread entries. A change counts from the next release."""
        self.network = network
        self.budget_bytes = budget_bytes
        self._entries: list[_Entry] = []
        """The least recently used first."""

    @property
    def readers(self) -> int:
        return sum(len(entry.readers) for entry in self._entries)

    def acquire(self, ids: Sequence[int]) -> EncodedPrefix:
        """The longest encoded prefix of `ids`; the caller encodes the rest and must release it."""
        best = max(self._entries, key=lambda entry: common_start(entry.ids, ids), default=None)
        common = 0 if best is None else common_start(best.ids, ids)
        if best is not None and self._may_take(best, common):
            entry = best
            self._entries.remove(entry)
            del entry.ids[common:]
        else:
            entry = self._copy(best, common)
        self._entries.append(entry)
        prefix = EncodedPrefix(self, entry, ids, common)
        entry.readers.append(prefix)
        return prefix

    def evict(self) -> None:
        """Drops the least recently used unread entries until the rest fits the budget."""
        idle = [entry for entry in self._entries if not entry.readers]
        while idle and self.size_bytes() > self.budget_bytes:
            self._entries.remove(idle.pop(0))

    def size_bytes(self) -> int:
        return sum(entry.size_bytes() for entry in self._entries)

    def _may_take(self, entry: _Entry, common: int) -> bool:
        """Whether to use the entry itself: nobody uses rows past `common`, and it is the same document."""
        if any(not prefix.is_whole or prefix.length > common for prefix in entry.readers):
            return False
        return common >= _KEEP_OTHERS_FRACTION * len(entry.ids)

    def _copy(self, source: _Entry | None, common: int) -> _Entry:
        """The first `common` tokens of an entry, in memory of their own."""
        layers = self.network.empty_layers()
        if source is None or not common:
            return _Entry(layers)
        join = self.network.rows.joined
        pairs = zip(layers, source.layers, strict=True)
        copied = [
            LayerView(join(new.keys, old.keys[:, :, :common]), join(new.values, old.values[:, :, :common]))
            for new, old in pairs
        ]
        return _Entry(copied, source.ids[:common])


def _append(rows: ArrayRows, buffer: Array, new: Array, at: int) -> Array:
    """Writes `new` (1, heads, n, size) at row `at`, in a larger buffer if need be; views of the old one stay valid."""
    end = at + new.shape[2]
    if buffer.shape[2] < end:
        grown = rows.empty(new, end + max(_SPARE_ROWS, end // _SPARE_SHARE) if at else end)
        if at:
            grown[:, :, :at] = buffer[:, :, :at]
        buffer = grown
    buffer[:, :, at:end] = new
    return buffer
