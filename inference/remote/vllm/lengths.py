"""Chooses the lengths to try for a hole, by one-step reads of noise canvases, side by side.

A slack token's probability in each row comes with `logprob_token_ids`. Without such a token the lengths are guessed.
"""

import math

from inference.engine.canvas.plan import Plan
from inference.engine.search import length
from inference.models.properties import Properties
from inference.remote.vllm.reading import CanvasReader
from inference.remote.vllm.rules import TextRules
from inference.remote.vllm.trial import SeededNoise, Trial

_LENGTHS, _LENGTHS_QUICK, _LENGTHS_OF_SEVERAL_LINES = 4, 2, 3
"""How many lengths to try for one answer. Each is a separate canvas in the server's batch."""
_GUESSED = 8
"""How many lengths of a line to try without any knowledge of them."""


class Lengths:
    """Chooses lengths for the holes of one canvas."""

    def __init__(
        self, reader: CanvasReader, plan: Plan, properties: Properties, rules: TextRules, noise: SeededNoise
    ) -> None:
        self._reader, self._plan, self._properties = reader, plan, properties
        self._rules, self._noise = rules, noise

    async def choices(self, candidates: int, *, quick: bool) -> list[tuple[int, ...]]:
        """The lengths to try, one per hole, likeliest first; at least this many, some of them more than once.

        Raises ServerError, and TimeoutError at the deadline.
        """
        holes = self._plan.layout.holes
        if all(hole.minimum == hole.maximum for hole in holes):
            found = [tuple(hole.maximum for hole in holes)]
        else:
            found = await self._different(max(candidates, self._usual_count(quick=quick)), quick=quick)
        return [found[number % len(found)] for number in range(max(candidates, len(found)))]

    def _usual_count(self, *, quick: bool) -> int:
        several = not all(hole.single_line for hole in self._plan.layout.holes)
        if quick:
            return _LENGTHS_QUICK
        return self._properties.length_choices or (_LENGTHS_OF_SEVERAL_LINES if several else _LENGTHS)

    async def _different(self, count: int, *, quick: bool) -> list[tuple[int, ...]]:
        holes = self._plan.layout.holes
        if self._properties.slack_token_id is not None:
            return length.from_slack(await self._slack(self._properties.slack_token_id), holes, count)
        if not all(hole.single_line for hole in holes):
            return length.around_usual(holes, count)
        return length.from_grid(holes, count if quick else max(count, _GUESSED))

    async def _slack(self, token: int) -> list[list[float]]:
        """P(slack) of each slot of each hole, on the canvas with all holes at their widest and nothing but noise."""
        row = self._plan.layout.compose([hole.maximum for hole in self._plan.layout.holes])
        trial = Trial(row, self._plan.layout.holes, self._rules, self._noise)
        answer = await self._reader.read(trial.seed, trial.pinned, tokens=(token,))
        known = [math.exp(min(0.0, each.get(token, -math.inf))) for each in answer.log_probabilities]
        return [known[first:end] for _, first, end in row.spans]
