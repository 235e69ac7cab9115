"""The tokens allowed in a hole's row: text only, no line break in a hole of one line, a given start.

vLLM cannot enforce that: it refuses `logit_bias`, and `diffusion_constrained` holds for a whole canvas. Its list of a
row's likeliest tokens is enough to choose among them.
"""

from collections.abc import Mapping, Sequence

from inference.engine.canvas.layout import Row, Slots
from inference.engine.canvas.vocabulary import Vocabulary
from inference.models.properties import Properties


class TextRules:
    """Where a checkpoint's tokens may appear."""

    def __init__(self, vocabulary: Vocabulary, properties: Properties) -> None:
        self._size, self._first = len(vocabulary), properties.first_text_token_id
        self._special = frozenset(vocabulary.special_ids)
        self._line_breaks = frozenset(vocabulary.line_break_ids)

    def is_text(self, token: int) -> bool:
        """Whether a token may appear in a fill of several lines."""
        return self._first <= token < self._size and token not in self._special

    def may_stand(self, token: int, hole: Slots, *, is_start: bool) -> bool:
        """Whether a token may appear in a row of this hole; `is_start`: in its first open row."""
        if is_start and hole.allowed is not None:
            return hole.may_begin(token)
        return self.is_text(token) and not (hole.single_line and token in self._line_breaks)

    def choices(self, known: Mapping[int, float], hole: Slots, *, is_start: bool) -> list[tuple[int, float]]:
        """The tokens allowed there with their log-probabilities, likeliest first."""
        some = [(token, value) for token, value in known.items() if self.may_stand(token, hole, is_start=is_start)]
        return sorted(some, key=lambda each: (-each[1], each[0]))


def open_rows(row: Row, holes: Sequence[Slots]) -> dict[int, tuple[Slots, bool]]:
    """For each open row of a canvas its hole, and whether it is the first one after the hole's given start."""
    return {
        number: (hole, number == first)
        for (_, first, end), hole in zip(row.spans, holes, strict=True)
        for number in range(first, end)
    }
