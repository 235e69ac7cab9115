"""Masked diffusion behind the `ModelAdapter` protocol: prefix and canvas are one sequence, and each row sees all of it.

A context first computes one canvas with the whole prefix, except what an earlier request has cached; the other canvases
copy shared rows. From then on a step computes the requested rows and changed tokens, and every few steps all rows.

Where every row sees every row, cached keys and values are not exact, but they change little while the row's own token
stays (Fast-dLLM, Wu et al., 2025, https://arxiv.org/abs/2505.22618). The keys of a row that moves are rotated by the
distance. Shapes: B sequences, A computed rows, T rows of a sequence, L layers, G heads of keys, D their size.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from tokenizers import Tokenizer
from torch import Tensor

from inference.models.family import ModelAdapter, ModelTraits, PrefixHandle, common_prefix_and_suffix_lengths
from inference.models.infill_config import ENTROPY_BOUND, HoleNoise, InfillConfig
from inference.models.llama.network import LlamaNetwork, apply_rotary

_NEIGHBOURS = 8
"""Recompute this many rows next to the position where two sequences begin to differ: they depend on it most."""

REFRESH_STEPS = 8
"""After this many steps, recompute all rows of the canvases."""

_MAX_USES = 64
"""After this many requests in a row that reused earlier rows, recompute all rows."""

_MAX_CACHED = 4
_MAX_CACHED_BYTES = 1 << 30

_PROPORTIONAL_ROWS = 64
"""From this many rows on, the time of a pass is proportional to them."""


@dataclass
class CanvasKvCache:
    """Keys and values of B sequences, (L, 2, B, G, T, D), for passes that compute the rows `computed` (B, A).

    `before` (L, 2, 1, G, T', D): rows of one sequence that precede all of these.
    """

    keys_values: Tensor
    before: Tensor | None = None
    computed: Tensor = field(default_factory=lambda: torch.zeros((1, 0), dtype=torch.long))

    def append_to_layer(self, layer: int, keys: Tensor, values: Tensor) -> Tensor:
        both = self.keys_values[layer]
        new = torch.stack([keys, values]).transpose(2, 3).to(both.dtype)
        both.scatter_(3, self.computed[None, :, None, :, None].expand_as(new), new)
        if self.before is None:
            return both
        return torch.cat([self.before[layer].expand(-1, len(keys), -1, -1, -1), both], 3)

    def gather(self, network: LlamaNetwork, rows: Tensor, moved: Tensor) -> "CanvasKvCache":
        """Gathers `rows` (B, T') of one cached sequence for B sequences, with their keys shifted by `moved` (B, T')."""
        gathered = self.keys_values[:, :, 0][:, :, :, rows].transpose(2, 3).contiguous()
        rotary = network.rotary_factors(moved).transpose(1, 2)  # (B, 1, T', D / 2)
        for layer in gathered:
            layer[0] = apply_rotary(layer[0].float(), rotary)
        return CanvasKvCache(gathered)


@dataclass
class CachedSequence:
    """A sequence of tokens and its computed keys and values, the rows of the prefix first."""

    ids: list[int]
    rows: CanvasKvCache
    uses: int = 0
    """How many sequences in a row were derived from one another since all rows were computed."""

    def num_shared_rows(self, prefix_ids: Sequence[int]) -> int:
        """How many rows of a prefix can reuse the cached keys and values."""
        return sum(row >= 0 for row in map_to_cached_rows(self.ids[: len(prefix_ids)], prefix_ids))

    @property
    def size_bytes(self) -> int:
        return self.rows.keys_values.nbytes


def map_to_cached_rows(cached_ids: Sequence[int], ids: Sequence[int], *, neighbours: int = _NEIGHBOURS) -> list[int]:
    """For each token of `ids`, the row of `cached_ids` whose keys and values can be reused, or -1."""
    prefix_rows, suffix_rows = common_prefix_and_suffix_lengths(cached_ids, ids)
    if prefix_rows == len(ids) == len(cached_ids):
        return list(range(prefix_rows))
    first = max(0, prefix_rows - neighbours)
    suffix_start = max(0, suffix_rows - neighbours)
    shift = len(cached_ids) - len(ids)
    middle = len(ids) - first - suffix_start
    return [*range(first), *[-1] * middle, *(row + shift for row in range(len(ids) - suffix_start, len(ids)))]


class SequenceCache:
    """The computations of the latest requests, for those that follow."""

    def __init__(self) -> None:
        self._sequences: list[CachedSequence] = []
        self.row_s = math.inf
        """The latest time per row of a pass over many rows; inf before the first. Too low on a GPU: passes overlap."""

    def find_best(self, prefix_ids: Sequence[int]) -> CachedSequence | None:
        """The sequence that shares most of a prefix, at least half of it."""
        recent = [sequence for sequence in self._sequences if sequence.uses < _MAX_USES]
        best = max(recent, key=lambda sequence: sequence.num_shared_rows(prefix_ids), default=None)
        return best if best and 2 * best.num_shared_rows(prefix_ids) > len(prefix_ids) else None

    def add(self, sequence: CachedSequence, replaced: CachedSequence | None) -> None:
        """Stores a sequence in place of the one it was derived from, if any; drops the oldest."""
        remaining = [cached for cached in self._sequences if cached is not replaced][-(_MAX_CACHED - 1) :]
        self._sequences = [*remaining, sequence]
        while len(self._sequences) > 1 and sum(cached.size_bytes for cached in self._sequences) > _MAX_CACHED_BYTES:
            del self._sequences[0]


@dataclass
class _Canvases:
    """The canvases at the latest pass, each preceded by the last token of the prefix, or by all that is computed."""

    ids: Tensor  # (B, W')
    valid: Tensor | None  # (B, W')
    rows: CanvasKvCache
    steps: int = 0


class MaskedPrefixHandle(PrefixHandle):
    """A `PrefixHandle` with the predictions of an exact one, except for changes in rows that were not recomputed.

    A prefix is read together with its first canvas, which it sees.
    """

    def __init__(
        self, network: LlamaNetwork, infill_config: InfillConfig, prefix_ids: Sequence[int], memory: SequenceCache
    ) -> None:
        self._network = network
        self._shifted = infill_config.shifted_logits
        self._prefix_ids = list(prefix_ids)
        self._memory = memory
        self._cached = memory.find_best(self._prefix_ids)
        self.reused_tokens = self._cached.num_shared_rows(self._prefix_ids) if self._cached else 0
        self._own: CachedSequence | None = None
        self._canvases: _Canvases | None = None
        self._joint = min(1, len(self._prefix_ids))
        """The rows of the prefix computed with the canvases: if logits are shifted, the last predicts their first row.
        """

    @torch.inference_mode()
    def predict(
        self, ids: Tensor, rows: Tensor, *, valid: Tensor | None = None, feedback: Tensor | None = None
    ) -> Tensor:
        width = ids.shape[1] + self._joint
        last = torch.tensor(self._prefix_ids[-1:], dtype=torch.long, device=ids.device)
        whole = torch.cat([last.expand(len(ids), -1), ids], 1)
        if valid is not None:
            valid = torch.cat([valid.new_ones(len(ids), self._joint), valid], 1)
        owners = rows // ids.shape[1]
        places = rows % ids.shape[1] + self._joint
        sought = (places - 1).clamp(min=0) if self._shifted else places
        is_requested = torch.zeros_like(whole, dtype=torch.bool)
        is_requested[owners, places] = is_requested[owners, sought] = True
        previous = self._canvases
        if previous is None or previous.ids.shape != whole.shape or not _are_equal(previous.valid, valid):
            hidden, index = self._compute_all(whole, valid, is_requested)
        else:
            previous.steps += 1
            stale = is_requested | (previous.ids != whole)
            if previous.steps % REFRESH_STEPS == 0:
                stale = torch.ones_like(stale) if valid is None else valid
            previous.ids = whole
            hidden, index = self._pass(previous, stale)
            if len(whole) == 1 and self._own is not None:  # whose keys and values these are, in the same memory
                self._own.ids[len(self._prefix_ids) - self._joint :] = whole[0].tolist()
        return self._network.head(hidden[owners, index.view(len(ids), width)[owners, sought]]).float()

    def close(self) -> None:
        self._canvases = None

    def _compute_all(self, ids: Tensor, valid: Tensor | None, is_requested: Tensor) -> tuple[Tensor, Tensor]:
        """Computes canvases for the first time; returns the same as `_pass`."""
        canvas_index = len(ids) // 2
        computed, hidden, index = self._read(ids, valid, is_requested, canvas_index)
        first = len(self._prefix_ids) - self._joint
        prefix_rows, own = computed.rows.keys_values[..., :first, :], computed.rows.keys_values[..., first:, :]
        if len(ids) == 1:
            self._canvases = _Canvases(ids, valid, CanvasKvCache(own, prefix_rows))
            return hidden, index
        shared = [map_to_cached_rows(computed.ids[first:], canvas, neighbours=0) for canvas in _unpadded(ids, valid)]
        width = ids.shape[1]
        table = torch.tensor([[*rows, *[-1] * (width - len(rows))] for rows in shared], device=ids.device)
        columns = torch.arange(width, device=ids.device)
        moved = torch.where(table < 0, 0, columns - table)
        gathered = CanvasKvCache(own).gather(self._network, table.clamp(min=0), moved)
        gathered.before = prefix_rows
        self._canvases = _Canvases(ids, valid, gathered)
        return self._pass(self._canvases, is_requested | (table < 0))

    def _read(
        self, ids: Tensor, valid: Tensor | None, is_requested: Tensor, canvas_index: int
    ) -> tuple[CachedSequence, Tensor, Tensor]:
        """Computes the part of one canvas, with the prefix before it, that is not cached."""
        (own,) = _unpadded(
            ids[canvas_index : canvas_index + 1], None if valid is None else valid[canvas_index : canvas_index + 1]
        )
        whole = [*self._prefix_ids[: len(self._prefix_ids) - self._joint], *own]
        cached = self._own or self._cached
        source_rows = [-1] * len(whole) if cached is None else map_to_cached_rows(cached.ids, whole)
        table = torch.tensor(source_rows, device=ids.device)
        first = len(whole) - len(own)
        table[first:][is_requested[canvas_index, : len(own)]] = -1
        rows = CanvasKvCache(self._network.empty_cache(len(whole)).keys_values)
        if cached is not None:
            moved = torch.where(table < 0, 0, torch.arange(len(whole), device=ids.device) - table)
            rows = cached.rows.gather(self._network, table.clamp(min=0)[None], moved[None])
        hidden, index = self._pass(_Canvases(torch.tensor([whole], device=ids.device), None, rows), table[None] < 0)
        uses = 0 if cached is None or bool((table < 0).all()) else cached.uses + (cached is not self._own)
        computed = CachedSequence(whole, rows, uses)
        self._memory.add(computed, self._own)
        self._own = computed
        return computed, hidden, torch.nn.functional.pad(index[:, first:], (0, ids.shape[1] - len(own)))

    def _pass(self, canvases: _Canvases, stale: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the `stale` (B, W') rows; returns their hidden states (B, A, d) and the index of each row in A."""
        if canvases.valid is not None:
            stale = stale & canvases.valid
        counts = stale.sum(1)
        order = stale.int().argsort(dim=1, descending=True, stable=True)[:, : max(1, int(counts.max()))]
        is_padding = torch.arange(order.shape[1], device=order.device) >= counts[:, None]
        computed = torch.where(is_padding, order[:, :1], order)  # a row that is computed twice gets the same result
        rows = canvases.rows
        rows.computed = computed
        first = 0 if rows.before is None else rows.before.shape[-2]
        visible = None
        if canvases.valid is not None:
            prefix_mask = canvases.valid.new_ones(len(stale), first)
            visible = torch.cat([prefix_mask, canvases.valid], 1)[:, None, None]
        ids = canvases.ids.gather(1, computed)
        began = time.perf_counter()
        hidden = self._network.hidden_states(ids, first + computed, rows.append_to_layer, visible, ids.shape[1])
        if ids.numel() >= _PROPORTIONAL_ROWS:
            self._memory.row_s = (time.perf_counter() - began) / ids.numel()
        places = torch.arange(order.shape[1], device=order.device).expand_as(computed)
        return hidden, torch.zeros_like(canvases.ids).scatter(1, computed, places)


class MaskedDiffusionAdapter(ModelAdapter):
    def __init__(
        self, name: str, network: LlamaNetwork, infill_config: InfillConfig, tokenizer: Tokenizer, dtype: str
    ) -> None:
        self.name = name
        self.network = network
        self.infill_config = infill_config
        self.tokenizer = tokenizer
        self.device = network.device
        self.dtype = dtype
        self.note = network.note
        self._memory = SequenceCache()
        tokens = (infill_config.expand_token_id, infill_config.delete_token_id)
        self.traits = ModelTraits(
            noise=HoleNoise.MASK,
            can_resize=None not in tokens and infill_config.sampler.method != ENTROPY_BOUND,
            vocabulary_size=network.config.vocab_size,
            can_score=False,  # a row sees the rows after it, so no product of its predictions is a likelihood
        )

    @property
    def seconds_per_row(self) -> float:
        return self._memory.row_s

    def open_prefix(self, prefix_ids: Sequence[int]) -> PrefixHandle:
        return MaskedPrefixHandle(self.network, self.infill_config, prefix_ids, self._memory)


def _are_equal(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b or (a is not None and b is not None and torch.equal(a, b))


def _unpadded(ids: Tensor, valid: Tensor | None) -> list[list[int]]:
    """The tokens of each canvas, without its padding."""
    lengths = [ids.shape[1]] * len(ids) if valid is None else valid.sum(1).tolist()
    return [canvas_ids[:length] for canvas_ids, length in zip(ids.tolist(), lengths, strict=True)]
