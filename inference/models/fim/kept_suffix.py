"""Reuses the keys and values of a suffix when the text before it grows or shrinks by some lines.

In a prompt the suffix follows the prefix, so each new line would mean prefilling all of it again. Instead, its keys are
rotated to their new positions and its values are kept; only its first tokens are read again. The result is an
approximation. llama.cpp's `--cache-reuse` does the same.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inference.models.family import common_prefix_and_suffix_lengths, common_prefix_length
from inference.models.llama.causal import KvCache
from inference.models.prefix_cache import APPROXIMATION_PENALTY_TOKENS, PrefixCache

KEEP_SUFFIX_VARIABLE = "INFILL_LS_KEEP_SUFFIX"
"""Set this environment variable to 0 to prefill every suffix afresh: then no fill depends on earlier requests."""
_MAX_DRIFT_LINES = 8
"""Rows that would move further than this from where they were computed are computed again."""
_READ_TOKENS, _MIN_TOKENS = 32, 64
"""How many tokens at the suffix's start to compute again, and the fewest others worth reusing."""
_READ_PER_LINE = 8
"""How many more to compute again for each line after the first by which the rows move: the loss grows with it."""
_ANCHOR_TOKENS = 8
"""An old suffix is recognised in the new one by this many equal tokens."""


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


class KeptSuffixFinder:
    """Finds a prompt's suffix among the entries of a prefix cache."""

    def __init__(
        self, cache: PrefixCache[KvCache], suffix_id: int, end_id: int, count_lines: Callable[[Sequence[int]], int]
    ) -> None:
        """The arguments are the tokens before and after each suffix. Only for prompts with the prefix first."""
        self.cache = cache
        self.is_on = os.environ.get(KEEP_SUFFIX_VARIABLE) != "0"
        self._suffix_id = suffix_id
        self._end_id = end_id
        self._count_lines = count_lines

    def find(self, ids: Sequence[int]) -> KeptSuffix | None:
        """The rows to reuse for the uncached suffix of the prompt `ids`, from the entry with most of them."""
        if not self.is_on or self._suffix_id not in ids:
            return None
        start = max(ids.index(self._suffix_id) + 1 + _READ_TOKENS, self.cache.cached_tokens(ids))
        new = list(ids[start : ids.index(self._end_id) if self._end_id in ids else None])
        if len(new) < _MIN_TOKENS:
            return None
        best, best_worth = None, 0
        for entry in self.cache.entries:
            old_start, count = self._longest_common(entry.ids, new)
            is_exact = entry.approximate_from is None or entry.approximate_from >= old_start + count
            worth = count - (0 if is_exact else APPROXIMATION_PENALTY_TOKENS)
            if count >= _MIN_TOKENS and worth > best_worth:  # lines are counted for few entries
                drift_lines = self._moved_lines(entry.ids[:old_start], ids[:start])
                drift_lines += 0 if is_exact else entry.drift_lines
                skip = _READ_PER_LINE * (drift_lines - 1)
                is_near = drift_lines <= _MAX_DRIFT_LINES and count - skip >= _MIN_TOKENS
                if is_near and worth - skip > best_worth:
                    best = KeptSuffix(entry, old_start + skip, start + skip, count - skip, drift_lines)
                    best_worth = worth - skip
        return best

    def _longest_common(self, old: Sequence[int], new: Sequence[int]) -> tuple[int, int]:
        """The start and length of the longest stretch of the `old` suffix with which `new` begins."""
        first = old.index(self._suffix_id) + 1 if self._suffix_id in old else len(old)
        anchor = new[:_ANCHOR_TOKENS]
        starts = (start for start, id_ in enumerate(old[first:], first) if id_ == anchor[0])
        best = (start for start in starts if old[start : start + _ANCHOR_TOKENS] == anchor)
        stretches = ((start, common_prefix_length(old[start:], new)) for start in best)
        return max(stretches, key=lambda stretch: stretch[1], default=(0, 0))

    def _moved_lines(self, old: Sequence[int], new: Sequence[int]) -> int:
        """By how many lines the rows move if `new` replaces `old` before them: at least 1."""
        lead, tail = common_prefix_and_suffix_lengths(old, new)
        return max(1, *(self._count_lines(ids[lead : len(ids) - tail]) for ids in (old, new)))
