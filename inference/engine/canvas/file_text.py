"""Predicts the next token from the file itself: what followed where the same tokens stood before.

Code repeats what its own file says: names, calls, whole lines. A small model that was shown little of the file knows
none of that. So its distribution is mixed with that of an n-gram model of the file, both sides of the hole: the tokens
that followed the longest match of the last tokens (a cache language model: Kuhn and De Mori, 1990,
https://doi.org/10.1109/34.56193). The shares were fitted to the solutions of tuning tasks by expectation maximisation,
one for each length of match up to eight: 2.01 nats a token became 1.84. Here those from four on share one value. The
mixing itself stands in engine/search/file_mixture.py, for it needs torch.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from inference.engine.canvas.vocabulary import Vocabulary

_BEFORE_CHARACTERS, _AFTER_CHARACTERS = 16_000, 8_000
"""How much of the file's text is looked at, nearest to the hole."""

_SHARES = (0.0, 0.07, 0.17, 0.26, 0.33)
"""The weight of what followed a match of so many tokens, or more."""

LONGEST_MATCH = 6
_NOTHING = -1


class Followers(NamedTuple):
    """The tokens that followed a match, one for each place, and their weight beside the model's distribution."""

    tokens: list[int]
    share: float

    def part(self, id_: int) -> float:
        """What they add to the probability of a token."""
        return self.share * self.tokens.count(id_) / max(1, len(self.tokens))


class FileText:
    """The tokens of a file on both sides of its holes. They do not change; each lookup is remembered."""

    def __init__(self, before: Sequence[int], after: Sequence[int]) -> None:
        self._ids = [*before, _NOTHING, *after, _NOTHING]
        self._places: defaultdict[int, list[int]] = defaultdict(list)
        for place, id_ in enumerate(self._ids):
            self._places[id_].append(place)
        self._known: dict[tuple[int, ...], Followers] = {}

    @classmethod
    def of(cls, vocabulary: Vocabulary, before: str, after: str) -> "FileText":
        """The text before the first hole and behind the last, as far as it is near."""
        near = before[-_BEFORE_CHARACTERS:]
        return cls(vocabulary.encode_lines(near), vocabulary.encode_lines(after[:_AFTER_CHARACTERS]))

    def followers(self, tail: Sequence[int]) -> Followers:
        """What followed the longest match of the end of `tail`."""
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
