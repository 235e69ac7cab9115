"""Caches token sequences with their keys and values, so that a keystroke costs a few tokens and not the whole file.

All documents share the cache. `acquire` looks for the entry with the longest common token prefix. It cuts that entry
after the prefix and returns it, which overwrites its other rows; or it copies the prefix, where the entry belongs to
another document, where a reader needs the rows after it, or where it was prefilled ahead. From then on rows are only
appended, by one reader. So what a reader has seen of an entry stays valid until its `release`, which evicts the least
recently used entries that nobody reads. Knows no layout of keys and values.
"""

import sys
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

from inference.models.family import ModelAdapter, PrefixHandle, common_prefix_length

_SAME_DOCUMENT_SHARE = 0.5
"""An entry that shares less than this of its tokens belongs to another document: copy from it instead of cutting it."""
_HIT_TOKENS = 32
"""An entry that was prefilled ahead counts as used if it has this many tokens more than any other entry."""

APPROXIMATION_PENALTY_TOKENS = 32
"""An approximate entry is preferred only if it has this many tokens more than an exact one."""


class CacheEntry(Protocol):
    """The tokens of one sequence, and their keys and values. Its memory after the rows of `ids` is free."""

    ids: list[int]
    approximate_from: int | None
    """Rows from this one on are approximations of what prefill would compute; None if all rows are exact."""

    def size_bytes(self) -> int: ...

    def truncate(self, length: int, /) -> None:
        """Drops the tokens from `length` on."""

    def copied(self, length: int, capacity: int, /) -> Self:
        """A copy of the first `length` tokens, with room for `capacity` if the entry supports that."""


_Entry = TypeVar("_Entry", bound=CacheEntry)


@dataclass(eq=False)
class CachedPrefix(Generic[_Entry]):
    """A reader's hold on an entry, from `acquire` to `release`. It may read the first `length` rows.

    `is_growing`: it may append rows, too; no other reader gets the entry itself meanwhile.
    """

    entry: _Entry
    length: int
    is_growing: bool = True


@dataclass(eq=False)
class _Slot(Generic[_Entry]):
    entry: _Entry
    is_ahead: bool
    is_hit: bool = False
    """Whether a request has used an entry that was prefilled ahead."""
    readers: list[CachedPrefix[_Entry]] = field(default_factory=list)

    def may_cut(self, length: int) -> bool:
        """Whether nobody needs the rows from `length` on."""
        is_needed = length < (1 if self.is_ahead else _SAME_DOCUMENT_SHARE) * len(self.entry.ids)
        return not is_needed and not any(reader.is_growing or reader.length > length for reader in self.readers)


class PrefixCache(Generic[_Entry]):
    """The entries of one network, within limits, and two more that were prefilled ahead for later requests."""

    def __init__(self, empty: _Entry, max_bytes: int, *, max_entries: int = sys.maxsize, min_entries: int = 0) -> None:
        """`max_bytes` limits the memory of entries without a reader; a change takes effect at the next release. At
        least `min_entries` stay.
        """
        self.max_bytes = max_bytes
        self._empty = empty
        self._max_entries = max_entries
        self._min_entries = min_entries
        self.ahead_tokens = 0
        self.ahead_hits = 0
        self.slots: list[_Slot[_Entry]] = []
        """The least recently used slot comes first."""

    def cached_tokens(self, ids: Sequence[int], *, exact: bool = False) -> int:
        """How many of the first `ids` are cached in one entry; `exact`: without approximate rows."""
        return max((_common(slot.entry, ids, exact) for slot in self.slots), default=0)

    @property
    def entries(self) -> list[_Entry]:
        """All entries, the most recently used first."""
        return [slot.entry for slot in reversed(self.slots)]

    def tokens_after(self, ids: Sequence[int]) -> list[int]:
        """The tokens after all of `ids` in the latest entry that has them; empty without one."""
        count, prefix = len(ids), list(ids)
        entries = (slot.entry.ids for slot in reversed(self.slots) if not slot.is_ahead)
        return next((entry[count:] for entry in entries if entry[:count] == prefix), [])

    def acquire(self, ids: Sequence[int], *, ahead: bool = False) -> CachedPrefix[_Entry]:
        """An entry that holds only the cached part of `ids`. The caller appends the rest, and must release it.

        `ahead`: for idle prefill. Such entries are never truncated, only copied; of the earlier ones the latest stays.
        """
        empty = _Slot(self._empty, ahead)
        best = max(
            [empty, *self.slots],
            key=lambda slot: (
                max(_common(slot.entry, ids, True), _common(slot.entry, ids, ahead) - APPROXIMATION_PENALTY_TOKENS),
                slot.is_ahead == ahead,
            ),
        )
        common = _common(best.entry, ids, ahead)
        self.ahead_tokens += (len(ids) - common) * ahead
        if best.is_ahead and not ahead and not best.is_hit:
            max_common = max((_common(slot.entry, ids, False) for slot in self.slots if slot is not best), default=0)
            best.is_hit = common >= max_common + _HIT_TOKENS
            self.ahead_hits += best.is_hit
        if best is not empty and best.is_ahead == ahead and best.may_cut(common):
            slot = best
            self.slots.remove(slot)
            slot.entry.truncate(common)
        else:
            slot = _Slot(best.entry.copied(common, len(ids)), ahead)
            latest_ahead = next((other for other in reversed(self.slots) if other.is_ahead), None)
            if ahead:
                self.slots = [other for other in self.slots if not other.is_ahead or other is latest_ahead]
        self.slots.append(slot)
        prefix = CachedPrefix(slot.entry, common)
        slot.readers.append(prefix)
        return prefix

    def release(self, prefix: CachedPrefix[_Entry]) -> None:
        """Releases an entry. Views of its rows must not be used any more. May be called twice."""
        for slot in self.slots:
            if prefix in slot.readers:
                slot.readers.remove(prefix)
        self._evict()

    def size_bytes(self) -> int:
        """The bytes of all entries but those prefilled ahead."""
        return sum(slot.entry.size_bytes() for slot in self.slots if not slot.is_ahead)

    def _evict(self) -> None:
        """Drops the least recently used entries until the others are within the limits."""
        idle = [slot for slot in self.slots if not slot.readers and not slot.is_ahead]
        while len(idle) > self._min_entries and (len(idle) > self._max_entries or self.size_bytes() > self.max_bytes):
            self.slots.remove(idle.pop(0))


def _common(entry: CacheEntry, ids: Sequence[int], exact: bool) -> int:
    """How many of the first `ids` the entry has; `exact`: without approximate rows."""
    common = common_prefix_length(entry.ids, ids)
    return common if entry.approximate_from is None or not exact else min(common, entry.approximate_from)


class IdlePrefillAdapter(ModelAdapter):
    """A family that keeps its prefixes in a `PrefixCache`, and prefills those of later requests while nobody waits."""

    network: Any
    prefixes: PrefixCache[Any]
    ahead_chunk_tokens: int
    """How many tokens to prefill ahead in one pass, for which a request may have to wait."""
    _ahead: Sequence[list[int]] = ()

    @abstractmethod
    def open_prefix(self, prefix_ids: Sequence[int], *, ahead: bool = False) -> PrefixHandle:
        """See `ModelAdapter`. `ahead`: for idle prefill."""

    def prefill_when_idle(self, *prefixes: Sequence[int]) -> None:
        self._ahead = [list(ids) for ids in prefixes]

    @property
    def prefill_counts(self) -> tuple[int, int]:
        return self.prefixes.ahead_tokens, self.prefixes.ahead_hits

    @property
    def is_prefill_pending(self) -> bool:
        return any(self.prefixes.cached_tokens(ids, exact=True) < len(ids) for ids in self._ahead)

    def run_idle_task(self) -> bool:
        unread = [ids for ids in self._ahead if self.prefixes.cached_tokens(ids, exact=True) < len(ids)]
        self._ahead = ()  # if it fails, it is not tried again
        if unread:
            chunk = unread[0][: self.prefixes.cached_tokens(unread[0], exact=True) + self.ahead_chunk_tokens]
            with closing(self.open_prefix(chunk, ahead=True)) as context:
                deque(context.prefill(), maxlen=0)
        self._ahead = unread
        may_continue = bool(unread) or self.network.run_idle_task()
        self.note = self.network.note  # capturing a pass may have failed
        return may_continue
