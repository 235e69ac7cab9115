"""A suffix whose keys and values are kept when the text before it grows or shrinks by some lines.

In a prompt the suffix follows the prefix, so each new line would have all of it read again. Its keys are rotated to
their new positions instead and its values kept; only its first tokens are read, which see the new text. The result is
not quite that of reading: llama.cpp's `--cache-reuse` does the same, and attention to the first tokens makes up for
most of it (StreamingLLM, arXiv 2309.17453, sees why).
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from inference.models.family import common_start
from inference.models.llama.network import KvCache, LlamaNetwork
from inference.models.prefix_cache import PrefixCache

KEEP_SUFFIX_VARIABLE = "INFILL_LS_KEEP_SUFFIX"
"""The environment variable that has every suffix read if it is 0: then no text depends on what was asked before."""
MAX_DRIFT_LINES = 8
"""Rows that would have moved further since they were read are read again."""
_READ_TOKENS = 32
"""The suffix's first tokens, which are read."""
_MIN_TOKENS = 64
"""Fewer are read again."""
_ANCHOR_TOKENS = 8
"""So many must be the same for an old suffix to be found in the new one."""


@dataclass(frozen=True)
class KeptSuffix:
    """Rows for the tokens of a prompt from `start` on, (L, 2, 1, G, n, D), which moved by so many lines in all."""

    start: int
    rows: Tensor
    drift_lines: int

    @property
    def end(self) -> int:
        return self.start + self.rows.shape[-2]


@dataclass(frozen=True)
class _Place:
    """Where a suffix was found: `count` rows of `entry` from `old_start` on, for a prompt's tokens from `start` on."""

    entry: KvCache
    old_start: int
    start: int
    count: int
    drift_lines: int


class SuffixKeeper:
    """Finds a prompt's suffix among the rows of other prompts of the same model."""

    def __init__(self, network: LlamaNetwork, suffix_id: int, count_lines: Callable[[Sequence[int]], int]) -> None:
        """`suffix_id` is the token before each suffix. Only for prompts in which the prefix comes first."""
        self._network = network
        self._suffix_id = suffix_id
        self._count_lines = count_lines
        self.is_on = os.environ.get(KEEP_SUFFIX_VARIABLE) != "0"

    def find(self, cache: PrefixCache[KvCache], ids: Sequence[int]) -> KeptSuffix | None:
        """The rows to keep for the suffix of the prompt `ids`, from the latest entry that has them; None if there are
        none, or the prefix cache has as much.
        """
        place = self._find(cache, ids)
        if place is None:
            return None
        rows = place.entry.keys_values[..., place.old_start : place.old_start + place.count, :].clone()
        rows[:, 0] = self._network.shifted(rows[:, 0], place.start - place.old_start)
        return KeptSuffix(place.start, rows, place.drift_lines)

    def count(self, cache: PrefixCache[KvCache], ids: Sequence[int]) -> int:
        """How many tokens `find` would keep."""
        place = self._find(cache, ids)
        return place.count if place else 0

    def _find(self, cache: PrefixCache[KvCache], ids: Sequence[int]) -> "_Place | None":
        if not self.is_on or self._suffix_id not in ids:
            return None
        start = ids.index(self._suffix_id) + 1 + _READ_TOKENS
        new = list(ids[start:])
        if len(new) < _MIN_TOKENS or cache.cached_tokens(ids) >= start:
            return None
        for entry in cache.latest:
            old_start, count = self._same(entry.ids, new)
            if count >= _MIN_TOKENS:
                drift_lines = self._drift_lines(entry, old_start, ids)
                if drift_lines <= MAX_DRIFT_LINES:
                    return _Place(entry, old_start, start, count, drift_lines)
        return None

    def _same(self, old: Sequence[int], new: Sequence[int]) -> tuple[int, int]:
        """Where the longest stretch of an old suffix begins that `new` begins with, and its length."""
        if self._suffix_id not in old:
            return 0, 0
        first = old.index(self._suffix_id) + 1
        anchor = new[:_ANCHOR_TOKENS]
        starts = (start for start in range(first, len(old)) if old[start : start + _ANCHOR_TOKENS] == anchor)
        stretches = ((start, common_start(old[start:], new)) for start in starts)
        return max(stretches, key=lambda stretch: stretch[1], default=(0, 0))

    def _drift_lines(self, entry: KvCache, old_start: int, ids: Sequence[int]) -> int:
        """How many lines the rows from `old_start` on have moved if they now belong to the prompt `ids`."""
        old, new = (prompt[: prompt.index(self._suffix_id)] for prompt in (entry.ids, ids))
        common = common_start(old, new)
        lines = max(self._count_lines(old[common:]), self._count_lines(new[common:]))
        return lines + (entry.drift_lines if entry.kept_from is not None and entry.kept_from <= old_start else 0)
