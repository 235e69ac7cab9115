"""How to search for a hole's length, given the checkpoint's signal (`LengthSignal`).

A slack token narrows the lengths down, so few are tried. Without such a signal the right one must be among those tried:
for a line, most of them. That compares the likelihood of short and long fills more often, and the text behind the hole
must weigh more: a fill that stops too early is likely by itself, but its continuation is not. A whole line is longer
than a part of one, so its longer fills get a bonus. For several lines the likelihood still prefers the shortest, so
only usual lengths are tried.

A masked model has no likelihood from left to right, but one by the chain rule in another order (masked_rank.py). Added
to it is a prior: a length is less likely the further it is from the usual one. It says nothing about several lines:
there the usual length is as good as any choice, and as the true one.

The numbers for no signal were chosen on tests/data/tuning.jsonl.gz with tests/data/twin and tests/data/masked, whose
cards have the tables.
"""

from dataclasses import dataclass

from inference.engine.canvas.layout import Slots
from inference.engine.search import rank
from inference.engine.search.rank import Weights
from inference.models.family import LengthSignal, Traits
from inference.models.properties import NoiseKind


@dataclass(frozen=True)
class LengthPolicy:
    """How many lengths to try and how to compare their fills."""

    of_one_line: int
    """How many lengths of a line to try, unless the checkpoint says."""
    of_several_lines: int
    """The limit for a hole of several lines."""
    finished: int
    """How many canvases to denoise to the end; more if more candidates are wanted."""
    keeps_trials: bool
    """Whether the finished canvases' answers at the time of pruning also count. Steps that make a canvas of the wrong
    length fluent can lose a good answer.
    """
    by_masking: bool
    """Whether to rank fills of one line by masking them again (masked_rank.py)."""
    rest_of_line: Weights
    part_of_line: Weights
    several_lines: Weights

    def lengths(self, holes: tuple[Slots, ...], stated: int | None) -> int:
        """How many lengths to try; `stated` is the checkpoint's number."""
        most = stated or self.of_one_line
        return most if all(hole.single_line for hole in holes) else min(self.of_several_lines, most)


_TOLD = LengthPolicy(6, 3, 2, False, False, rank.REST_OF_LINE, rank.PART_OF_LINE, rank.SEVERAL_LINES)
_GUESSED = LengthPolicy(14, 3, 4, True, False, Weights(3.0, 4.0, 16, 0.15), Weights(3.0, 8.0, 16), rank.SEVERAL_LINES)
_MASKED_LINE = Weights(smoothing=2.0, suffix=1.0, suffix_tokens=4, unusual=0.2, end=0.2)
_MASKED = LengthPolicy(14, 1, 8, False, True, _MASKED_LINE, _MASKED_LINE, rank.SEVERAL_LINES)


def of(traits: Traits) -> LengthPolicy:
    """The policy for a checkpoint of these traits."""
    if traits.length_signal is LengthSignal.SLACK:
        return _TOLD
    guessed = traits.length_signal is LengthSignal.NONE and not traits.can_score
    return _MASKED if guessed and traits.noise is NoiseKind.MASK else _GUESSED
