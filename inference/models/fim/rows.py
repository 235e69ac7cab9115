"""The keys and values of the tokens a model has read, and the part kept from one request to the next.

Shapes: L layers, B sequences, G heads, T tokens, D the size of a head.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from inference.models.family import common_start

_SPARE_TOKENS = 256
"""Allocate room for this many more tokens than needed, so that typing seldom copies."""
_KEPT_PROMPTS = 8
_KEPT_BYTES = 32 << 20
_SAME_TEXT = 0.5
"""Kept tokens that a new prompt shares less of belong to another text: copy from them instead of cutting them."""


class PrefixRows:
    """Keys and values (L, 2, B, G, capacity, D), of which the first `length` tokens count."""

    def __init__(self, content: Tensor) -> None:
        self.content = content
        self.length = 0

    @property
    def capacity(self) -> int:
        """How many tokens there is room for."""
        return self.content.shape[-2]

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Appends (B, n, G, D) to the rows of a layer; returns all of both, (B, G, T, D). `length` does not change."""
        end = self.length + keys.shape[1]
        both = self.content[layer]
        both[0, :, :, self.length : end] = keys.transpose(1, 2)
        both[1, :, :, self.length : end] = values.transpose(1, 2)
        return both[0, :, :, :end], both[1, :, :, :end]

    def reserve(self, capacity: int) -> None:
        """Makes room for this many tokens."""
        if capacity > self.capacity:
            grown = self.content.new_empty((*self.content.shape[:-2], capacity + _SPARE_TOKENS, self.content.shape[-1]))
            grown[..., : self.length, :] = self.content[..., : self.length, :]
            self.content = grown

    def copied(self, length: int, capacity: int) -> "PrefixRows":
        """The first `length` tokens, with room for this many."""
        shape = list(self.content.shape)
        shape[-2] = capacity
        made = PrefixRows(self.content.new_empty(shape))
        made.content[..., :length, :] = self.content[..., :length, :]
        made.length = length
        return made


@dataclass(eq=False)
class Prompt:
    """The rows of one sequence, and their tokens. One context at a time reads and extends it.

    What was read ahead, for prompts to come, they copy: each would cut it where it ends itself.
    """

    rows: PrefixRows
    ids: list[int]
    is_open: bool = True
    is_ahead: bool = False

    def cut(self, length: int) -> None:
        """Forgets all tokens but the first `length`."""
        self.rows.length = length
        del self.ids[length:]


class Prompts:
    """The latest prompts with what was written behind them: at most eight, and 32 MB beside what is being read.

    One more has been read ahead.
    """

    def __init__(self, empty: PrefixRows) -> None:
        """`empty`: rows of the network's shape, without room."""
        self._empty = empty
        self._kept: list[Prompt] = []
        """The least recently used first."""

    def known(self, ids: Sequence[int]) -> int:
        """How many of the first `ids` are known."""
        return max((common_start(each.ids, ids) for each in self._kept), default=0)

    def written_behind(self, ids: Sequence[int]) -> list[int]:
        """The tokens last known behind all of `ids`."""
        count, known = len(ids), list(ids)
        return next((each.ids[count:] for each in reversed(self._kept) if each.ids[:count] == known), [])

    def take(self, ids: Sequence[int], *, ahead: bool = False) -> Prompt:
        """The known part of `ids`, all of it their beginning, with room for the rest. The caller must give it back.

        `ahead`: it takes the place of what was read ahead until now.
        """
        best = max(self._kept, key=lambda each: (common_start(each.ids, ids), each.is_ahead == ahead), default=None)
        shared = 0 if best is None else common_start(best.ids, ids)
        if best is None or best.is_open or best.is_ahead != ahead or shared < _SAME_TEXT * len(best.ids):
            source = self._empty if best is None else best.rows
            best = Prompt(source.copied(shared, len(ids) + _SPARE_TOKENS), list(ids[:shared]), is_ahead=ahead)
            if ahead:
                self._kept = [each for each in self._kept if not each.is_ahead]
        else:
            self._kept.remove(best)
            best.is_open = True
            best.cut(shared)
            best.rows.reserve(len(ids))
        self._kept.append(best)
        return best

    def give_back(self, prompt: Prompt) -> None:
        """The prompt is no longer being read."""
        prompt.is_open = False
        idle = [each for each in self._kept if not each.is_open and not each.is_ahead]
        while len(idle) > 1 and (len(idle) > _KEPT_PROMPTS or self.size_bytes() > _KEPT_BYTES):
            self._kept.remove(idle.pop(0))

    def size_bytes(self) -> int:
        """The memory of all of them."""
        return sum(each.rows.content.nbytes for each in self._kept)
