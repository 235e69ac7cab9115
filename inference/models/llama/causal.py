"""The interface of causal networks of any library, for the family `fim`.

Shapes: n new tokens, d the width, V the vocabulary.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from inference.models.llama.config import LlamaConfig

SPARE_TOKENS = 256
"""Allocate room for this many more tokens than needed, so that typing seldom copies."""


class KvCache(ABC):
    """Tokens, and room for their keys and values, which a subclass holds: a `CacheEntry`.

    One context at a time reads and extends it. The rows from `approximate_from` on were moved here from another prompt,
    by `drift_lines` since they were computed, or come after such rows; None if all were computed here.
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.approximate_from: int | None = None
        self.drift_lines = 0

    def append_moved_rows(self, ids: Sequence[int], rows: Any, drift_lines: int) -> None:
        """Appends tokens with rows from `CausalNetwork.moved_rows`."""
        self.reserve(len(self.ids) + len(ids))
        self.write_all_layers(len(self.ids), rows)
        self.drift_lines = drift_lines if self.approximate_from is None else max(self.drift_lines, drift_lines)
        self.approximate_from = len(self.ids) if self.approximate_from is None else self.approximate_from
        self.ids += ids

    def truncate(self, length: int) -> None:
        del self.ids[length:]
        if self.approximate_from is not None and length <= self.approximate_from:
            self.approximate_from = None

    def reserve(self, capacity: int) -> None:
        if capacity > self.capacity:
            self.resize(len(self.ids), capacity + SPARE_TOKENS)

    def copied(self, length: int, capacity: int) -> Self:
        other = copy(self)
        other.ids = self.ids[:]
        other.truncate(length)
        other.resize(length, capacity + SPARE_TOKENS)
        return other

    @property
    @abstractmethod
    def capacity(self) -> int:
        """The number of tokens that fit."""

    @abstractmethod
    def size_bytes(self) -> int: ...

    @abstractmethod
    def resize(self, length: int, capacity: int) -> None:
        """Allocates memory for `capacity` tokens, and copies the first `length` rows."""

    @abstractmethod
    def write_all_layers(self, begin: int, rows: Any) -> None:
        """Writes moved rows from `begin` on."""


class CausalNetwork(Protocol):
    """A loaded network. Its caches, their rows and hidden states are arrays of its own library."""

    config: LlamaConfig
    device: torch.device
    """The device of the tensors that it takes and returns."""
    on_cpu: bool
    """Whether torch computes it on the CPU, for which `precision` has formats and times."""
    free_rows: int
    """See `ModelTraits.free_rows`."""
    note: str = ""
    """See `ModelAdapter.note`."""

    def empty_cache(self, capacity: int) -> KvCache:
        """An empty cache with room for this many tokens."""

    def forward(self, ids: Tensor, cache: Any, num_last: int) -> Any:
        """Appends tokens (1, n) to the cache; returns the hidden states (1, num_last, d) of the last, float32."""

    def logits(self, hidden: Any) -> Tensor:
        """(..., d) -> float32 logits (..., V)."""

    def run_idle_task(self) -> bool:
        return False

    def moved_rows(self, cache: Any, begin: int, count: int, by: int) -> Any:
        """A copy of `count` rows of a cache from `begin` on, as they would be `by` positions further on."""
