"""A suffix whose keys and values are kept when the text before it grows or shrinks by some lines.

In a prompt the suffix follows the prefix, so each new line would have all of it read again. Its keys are rotated to
their new positions instead and its values kept; only its first tokens are read, which see the new text. The result is
not quite that of reading. llama.cpp's `--cache-reuse` does the same.
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
_MAX_DRIFT_LINES = 8
"""Rows that would have moved further since they were read are read again."""
_READ_TOKENS = 32
"""The suffix's first tokens, which are read."""
_MIN_TOKENS = 64
"""Fewer are read again."""
_ANCHOR_TOKENS = 8
"""So many must be the same for an old suffix to be found in the new one."""


@dataclass(frozen=True)
class KeptSuffix:
    """`count` rows of `entry` from `old_start` on, for the tokens of a prompt from `start` on.

    `drift_lines`: how far they will have moved since they were read.
    """

    entry: KvCache
    old_start: int
    start: int
    count: int
    drift_lines: int

    @property
    def end(self) -> int:
        return self.start + self.count

    def rows(self, network: LlamaNetwork) -> Tensor:
        """A copy with the keys of the new positions, (L, 2, 1, G, n, D)."""
        rows = self.entry.keys_values[..., self.old_start : self.old_start + self.count, :].clone()
        rows[:, 0] = network.shifted(rows[:, 0], self.start - self.old_start)
        return rows


class SuffixKeeper:
    """Finds a prompt's suffix among the entries of a prefix cache."""

    def __init__(
        self, cache: PrefixCache[KvCache], suffix_id: int, count_lines: Callable[[Sequence[int]], int]
    ) -> None:
        """`suffix_id` is the token before each suffix. Only for prompts in which the prefix comes first."""
        self.cache = cache
        self.is_on = os.environ.get(KEEP_SUFFIX_VARIABLE) != "0"
        self._suffix_id = suffix_id
        self._count_lines = count_lines

    def find(self, ids: Sequence[int]) -> KeptSuffix | None:
        """What to keep for the suffix of the prompt `ids`, from the latest entry that has it; None if none has, or if
        all before it is cached.
        """
        if not self.is_on or self._suffix_id not in ids:
            return None
        start = ids.index(self._suffix_id) + 1 + _READ_TOKENS
        new = list(ids[start:])
        if len(new) < _MIN_TOKENS or self.cache.cached_tokens(ids) >= start:
            return None
        for entry in self.cache.latest:
            old_start, count = self._longest_common(entry.ids, new)
            if count >= _MIN_TOKENS and (drift_lines := self._drift_lines(entry, old_start, ids)) <= _MAX_DRIFT_LINES:
                return KeptSuffix(entry, old_start, start, count, drift_lines)
        return None

    def _longest_common(self, old: Sequence[int], new: Sequence[int]) -> tuple[int, int]:
        """Where in an old suffix the longest stretch begins that `new` begins with, and its length."""
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
