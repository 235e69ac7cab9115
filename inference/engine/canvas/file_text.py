"""Predicts the next token from the file itself: the tokens that followed the same context elsewhere.

A cache language model (Kuhn and De Mori, 1990, https://doi.org/10.1109/34.56193): the tokens that followed the longest
match of the last tokens, on both sides of the hole. The shares were fitted to tuning tasks by expectation maximisation,
one for each length of match; those from four on share one value. engine/search/rank.py mixes, with torch.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from inference.engine.canvas.vocabulary import Vocabulary

_BEFORE_CHARACTERS, _AFTER_CHARACTERS = 16_000, 8_000
"""How much of the file's text to use, nearest to the hole."""

_SHARES = (0.0, 0.07, 0.17, 0.26, 0.33)
"""The weight of a prediction after a match of this many tokens, or more."""

LONGEST_MATCH = 6
_NOTHING = -1


class Followers(NamedTuple):
    """The tokens that followed a match, one per occurrence, and their weight relative to the model's distribution."""

    tokens: list[int]
    share: float

    def part(self, id_: int) -> float:
        """Their contribution to the probability of a token."""
        return self.share * self.tokens.count(id_) / max(1, len(self.tokens))


class FileText:
    """The tokens of a file on both sides of its holes. Immutable; caches each lookup."""

    def __init__(self, before: Sequence[int], after: Sequence[int]) -> None:
        self._ids = [*before, _NOTHING, *after, _NOTHING]
        self._places: defaultdict[int, list[int]] = defaultdict(list)
        for place, id_ in enumerate(self._ids):
            self._places[id_].append(place)
        self._known: dict[tuple[int, ...], Followers] = {}

    @classmethod
    def of(cls, vocabulary: Vocabulary, before: str, after: str) -> "FileText":
        """The nearby text before the first hole and behind the last."""
        near = before[-_BEFORE_CHARACTERS:]
        return cls(vocabulary.encode_lines(near), vocabulary.encode_lines(after[:_AFTER_CHARACTERS]))

    def followers(self, tail: Sequence[int]) -> Followers:
        """The tokens that followed the longest match of the end of `tail`."""
        key = tuple(tail[-LONGEST_MATCH:])
        if key not in self._known:
            self._known[key] = self._followers(key)
        return self._known[key]

    def _followers(self, tail: tuple[int, ...]) -> Followers:
        places, length = (self._places.get(tail[-1], []) if tail else []), 1
        while length < len(tail):
            longer = [place for place in places if place >= length and self._ids[place - length] == tail[-1 - length]]
            if not longer:
                break
            places, length = longer, length + 1
        following = [self._ids[place + 1] for place in places]
        tokens = [id_ for id_ in following if id_ != _NOTHING]
        return Followers(tokens, _SHARES[min(length, len(_SHARES) - 1)] if tokens else 0.0)
