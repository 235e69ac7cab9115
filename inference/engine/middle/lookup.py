"""Guesses the next tokens of a text from those that followed the same tokens earlier, in its prompt or in itself.

One causal pass verifies them all, so a wrong guess costs a few rows and never a wrong token (prompt lookup decoding:
Saxena, 2023, https://github.com/apoorvumang/prompt-lookup-decoding).
"""

from collections.abc import Sequence

_LONGEST, _SHORTEST = 4, 2
MOST_GUESSED = 8


class Lookup:
    """The places of all short runs of tokens read or written so far. The latest of each counts."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}
        self.add(ids)

    def add(self, ids: Sequence[int]) -> None:
        """Adds these tokens as a source of guesses."""
        for id_ in ids:
            count = len(self._ids)
            for size in range(_SHORTEST, min(_LONGEST, count) + 1):
                self._ends[tuple(self._ids[count - size :])] = count
            self._ids.append(id_)

    def guess(self, tail: Sequence[int], most: int = MOST_GUESSED) -> list[int]:
        """At most this many tokens that followed the longest known run at the end of `tail`."""
        for size in range(min(_LONGEST, len(tail)), _SHORTEST - 1, -1):
            place = self._ends.get(tuple(tail[len(tail) - size :]))
            if place is not None:
                return self._ids[place : place + most]
        return []
