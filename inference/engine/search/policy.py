"""How to search for a hole's length, given the checkpoint's signal (`LengthSignal`).

A slack token narrows the lengths down, so few are tried. Without it most lengths of a line are tried, and the text
behind the hole weighs more, because a fill that stops too early is likely by itself. For several lines the likelihood
prefers the shortest, so only usual lengths are tried. A masked model's likelihood (masked_rank.py) gets a prior: a
length is less likely the further it is from the usual one. The numbers were chosen on tests/data/tuning.jsonl.gz with
tests/data/twin and tests/data/masked, whose cards have the tables.
"""

from dataclasses import dataclass

from inference.engine.canvas.layout import Slots
from inference.engine.search import rank
from inference.engine.search.rank import ScoreWeights
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
    """Whether the answers of the finished canvases at the time of pruning count: later steps can lose a good one."""
    by_masking: bool
    """Whether to rank fills of one line by masking them again (masked_rank.py)."""
    rest_of_line: ScoreWeights
    part_of_line: ScoreWeights
    several_lines: ScoreWeights

    def lengths(self, holes: tuple[Slots, ...], stated: int | None) -> int:
        """How many lengths to try; `stated` is the checkpoint's number."""
        most = stated or self.of_one_line
        return most if all(hole.single_line for hole in holes) else min(self.of_several_lines, most)


_TOLD = LengthPolicy(6, 3, 2, False, False, rank.REST_OF_LINE, rank.PART_OF_LINE, rank.SEVERAL_LINES)
_GUESSED = LengthPolicy(
    14, 3, 4, True, False, ScoreWeights(3.0, 4.0, 16, 0.15), ScoreWeights(3.0, 8.0, 16), rank.SEVERAL_LINES
)
_MASKED_LINE = ScoreWeights(smoothing=2.0, suffix=1.0, suffix_tokens=4, unusual=0.2, end=0.2)
_MASKED = LengthPolicy(14, 1, 8, False, True, _MASKED_LINE, _MASKED_LINE, rank.SEVERAL_LINES)


def of(traits: Traits) -> LengthPolicy:
    """The policy for a checkpoint of these traits."""
    if traits.length_signal is LengthSignal.SLACK:
        return _TOLD
    guessed = traits.length_signal is LengthSignal.NONE and not traits.can_score
    return _MASKED if guessed and traits.noise is NoiseKind.MASK else _GUESSED
