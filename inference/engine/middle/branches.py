"""The different texts for one hole: the likeliest first, then those that branch off where the model was least sure.

The next text takes the alternative whose log-probability is nearest to the chosen one's, counted along the way, and
continues from there. Nothing is random, so the same request has the same answers.
"""

import heapq
from collections.abc import Iterator
from itertools import count

from inference.engine.middle.branch import Branch, Choice
from inference.engine.middle.writer import Lookup, Writer

_DEEPER = 2.0
"""A branch off a branch counts as this much less likely, in nats: otherwise most would differ only in a comment."""
_TRIES = 2
"""Write at most this many times the number of wanted texts, since some turn out the same."""


class Branches:
    """Writes the texts of one hole, one after another."""

    def __init__(self, writer: Writer, lookup: Lookup) -> None:
        self._writer, self._lookup = writer, lookup
        self._numbers = count()
        self._open: list[tuple[float, int, Branch, int, Choice]] = []

    def add(self, branch: Branch, lost: float = 0.0, first: int = 0) -> None:
        """Others may leave `branch`, which is `lost` less likely than the first, from its choice number `first` on."""
        self._lookup.add(branch.ids)
        for place, choice in enumerate(branch.choices[first:], first):
            for id_, chance in choice.others:
                entry = lost + choice.chance - chance, next(self._numbers), branch, place, Choice(id_, chance)
                heapq.heappush(self._open, entry)

    def further(self, found: list[Branch], wanted: int) -> Iterator[None]:
        """Appends texts to those `found` so far, up to `wanted` different ones. Each `next` is a forward pass."""
        texts = {branch.text for branch in found}
        for _ in range(_TRIES * wanted):
            if not self._open or len(found) >= wanted:
                break
            lost, _, parent, place, choice = heapq.heappop(self._open)
            branch = parent.until(place)
            self._writer.follow(branch, choice)
            yield from self._writer.write(branch)
            self.add(branch, lost + _DEEPER, place + 1)
            if branch.text.strip() and branch.text not in texts:
                texts.add(branch.text)
                found.append(branch)
