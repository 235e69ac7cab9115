"""Fills one canvas: guesses lengths, has the server denoise one canvas per length side by side, and ranks the results.

vLLM cannot be told which tokens a row may become: it refuses `logit_bias`, and `diffusion_constrained` holds for a
whole canvas. Its list of a row's likeliest tokens is enough to choose among them here.

vLLM gives no causal likelihood of a fill: `prompt_logprobs` ends the engine of a diffusion model in 0.32. So the score
is how likely the first tokens behind a hole are given the fill, read on a canvas on which they are open. On 62 tuning
lines, 4 lengths each, that chose better (edit similarity 0.368) than the likeliest length (0.308).
"""

import asyncio
import math
import random
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from inference.engine.canvas import answered
from inference.engine.canvas.answered import RankedFill, Written
from inference.engine.canvas.layout import OPEN, Plan, Row, Slots
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.search import length
from inference.engine.search.length import Effort
from inference.engine.work import Counters
from inference.models.properties import Properties
from inference.remote.http import Client, ServerError
from inference.remote.vllm import wire
from inference.remote.vllm.wire import CanvasAnswer

_LENGTHS_QUICK = 2
_LENGTHS_OF_A_LINE = 8
_LENGTHS_OF_SEVERAL_LINES = 3
"""How many lengths to try for one answer. Each is a separate canvas in the server's batch."""
_SUFFIX_TOKENS = 8
_LENGTH_WEIGHT = 0.075
_LEAST = -20.0
"""The log-probability of tokens the server does not list."""


@dataclass(frozen=True)
class Model:
    """A served model: its tokens and its settings."""

    name: str
    vocabulary: Vocabulary
    properties: Properties

    def may_stand(self, token: int, hole: Slots, *, is_start: bool) -> bool:
        """Whether a token may appear in a row of this hole; `is_start`: in its first open row."""
        if is_start and hole.allowed is not None:
            return hole.may_begin(token)
        is_text = self.properties.first_text_token_id <= token < len(self.vocabulary) and token not in self.special_ids
        return is_text and not (hole.single_line and token in self.line_break_ids)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        return frozenset(self.vocabulary.special_ids)

    @cached_property
    def line_break_ids(self) -> frozenset[int]:
        """The tokens that begin with a line break."""
        return frozenset(self.vocabulary.line_break_ids)


class CanvasSearch:
    """The work on one canvas, on one server. `noise` is seeded, because vLLM takes no seed: so the first step is
    repeatable.
    """

    def __init__(
        self, client: Client, model: Model, plan: Plan, *, noise: random.Random, effort: Effort, counters: Counters
    ) -> None:
        self._client = client
        self._model = model
        self._plan = plan
        self._noise = noise
        self._effort = effort
        self._counters = counters
        self._deadline: float | None = None
        self._is_first = True
        self._written: list[Written] = []
        """The canvases read so far."""

    async def run(self, deadline: float | None, *, quick: bool) -> list[RankedFill]:
        """Its answers, best first: at the `deadline` those known by then. Raises ServerError if no canvas was read."""
        self._deadline = deadline
        try:
            async with asyncio.timeout(None if deadline is None else max(0.0, deadline - time.monotonic())):
                canvases = [self._denoise(sizes) for sizes in self._lengths(quick=quick)]
                found = await asyncio.gather(*canvases, return_exceptions=True)
                errors = [error for error in found if error is not None]
                if len(errors) == len(found):
                    raise errors[0]
                for error in errors:
                    if not isinstance(error, ServerError | TimeoutError):
                        raise error
                return await self._ranked()
        except TimeoutError:
            return self._ranked_by(each.log_confidence for each in self._written)

    def _lengths(self, *, quick: bool) -> list[tuple[int, ...]]:
        """The lengths to try, one per hole; at least one for each candidate, some more than once."""
        holes = self._plan.holes
        is_line = all(hole.single_line for hole in holes)
        usual = _LENGTHS_OF_A_LINE if is_line else _LENGTHS_OF_SEVERAL_LINES
        count = max(self._effort.candidates, _LENGTHS_QUICK if quick else usual)
        if all(hole.minimum == hole.maximum for hole in holes):
            found = [tuple(hole.maximum for hole in holes)]
        else:
            found = length.guessed(holes, count, usual_first=False)
        return [found[number % len(found)] for number in range(max(self._effort.candidates, len(found)))]

    async def _denoise(self, sizes: Sequence[int]) -> None:
        """Has one canvas filled; keeps it unless a row got no token that may stand there."""
        row = self._plan.compose(sizes).cut(self._model.properties.suffix_tokens)
        ids = self._begun(row)
        sure = [1.0] * len(ids)
        steps = 0
        if OPEN in ids:
            steps = self._effort.max_steps or self._model.properties.sampler.max_steps
            pinned = [number for number, id_ in enumerate(ids) if id_ != OPEN]
            seed = [self._noise.randrange(len(self._model.vocabulary)) if id_ == OPEN else id_ for id_ in ids]
            answer = await self._read(seed, pinned, steps=steps)
            if not self._choose(ids, sure, row, answer):
                return
        self._written.append(Written(ids, sure, row.spans, steps))

    def _begun(self, row: Row) -> list[int]:
        """The initial rows: in reworked text, the noised tokens are open."""
        ids = list(row.ids)
        for (_, first, end), hole in zip(row.spans, self._plan.holes, strict=True):
            for number, id_ in zip(range(first, end), hole.existing, strict=False):
                if self._noise.random() >= hole.strength:
                    ids[number] = id_
        return ids

    def _choose(self, ids: list[int], sure: list[float], row: Row, answer: CanvasAnswer) -> bool:
        """Writes the likeliest allowed token into each open row, and how sure it is. False: a row has none.

        If none of the named tokens is allowed, a row gets its given start, or the server's own token, and is unsure.
        """
        for (_, first, end), hole in zip(row.spans, self._plan.holes, strict=True):
            for number in (number for number in range(first, end) if ids[number] == OPEN):
                is_start = number == first
                likely = sorted(answer.log_probabilities[number].items(), key=lambda each: (-each[1], each[0]))
                allowed = [each for each in likely if self._model.may_stand(each[0], hole, is_start=is_start)]
                own = hole.allowed[0] if is_start and hole.allowed else answer.ids[number]
                token, value = allowed[0] if allowed else (own, -math.inf)
                ids[number] = token
                sure[number] = min(1.0, math.exp(value))
                if not self._model.may_stand(token, hole, is_start=is_start):
                    return False
        return True

    async def _ranked(self) -> list[RankedFill]:
        """All filled canvases, best first. Asks nothing about a single answer."""
        if len({each.texts(self._model.vocabulary, self._plan.holes) for each in self._written}) < 2:
            return self._ranked_by(each.log_confidence for each in self._written)
        asked = (self._suffix_likelihood(each) for each in self._written)
        found = await asyncio.gather(*asked, return_exceptions=True)
        behind = [each for each in found if isinstance(each, float)]
        if len(behind) < len(found):
            behind = [0.0] * len(found)
        return self._ranked_by(map(_score, self._written, behind))

    def _ranked_by(self, scores: Iterable[float]) -> list[RankedFill]:
        return answered.ranked(self._model.vocabulary, self._plan.holes, self._written, list(scores))

    async def _suffix_likelihood(self, written: Written) -> float | None:
        """The mean log-probability of the first tokens behind; None without any. Raises ServerError, TimeoutError."""
        end = written.spans[-1][2]
        rows = range(end, min(end + _SUFFIX_TOKENS, len(written.ids)))
        if not rows:
            return None
        size = len(self._model.vocabulary)
        seed = [self._noise.randrange(size) if row in rows else id_ for row, id_ in enumerate(written.ids)]
        wanted = [written.ids[row] for row in rows]
        pinned = [row for row in range(len(seed)) if row not in rows]
        answer = await self._read(seed, pinned, tokens=sorted(set(wanted)))
        known = answer.log_probabilities
        return sum(max(_LEAST, known[row].get(id_, _LEAST)) for row, id_ in zip(rows, wanted, strict=True)) / len(rows)

    async def _read(
        self, ids: Sequence[int], pinned: Collection[int], *, steps: int = 1, tokens: Sequence[int] = ()
    ) -> CanvasAnswer:
        """The state of a canvas after at most this many steps, and the likelihoods of its rows' tokens then.

        `pinned` are the numbers of the fixed rows. Names the likeliest tokens of each row; with `tokens`, at most
        128, these instead. Raises ServerError, and TimeoutError at the deadline.
        """
        arguments = {
            "diffusion_seed_canvas": ids,
            "diffusion_pinned": sorted(pinned),
            "diffusion_canvas_length": len(ids),
            "diffusion_max_steps": steps,
            "diffusion_read_only": True,
        }
        named = {"logprobs": 1, "logprob_token_ids": tokens} if tokens else {}
        began = time.monotonic()
        body = wire.request(self._model.name, self._plan.prefix_ids, len(ids), arguments, **named)
        said = await self._client.post("/v1/completions", body, self._deadline)
        with self._client.making_sense():
            answer = await asyncio.to_thread(wire.canvas_answer, said, len(ids))
        self._counters.steps += steps
        if self._is_first:
            self._is_first = False
            self._counters.encode_ms += (time.monotonic() - began) * 1000
            self._counters.prefix_tokens += len(self._plan.prefix_ids)
            self._counters.reused_tokens += answer.cached_tokens or 0
        return answer


def _score(written: Written, suffix: float) -> float:
    """How sure the model is of a fill and of what follows, higher is better, with a bonus for longer ones."""
    return (written.log_confidence + suffix) / 2 + _LENGTH_WEIGHT * math.log(max(1, written.tokens))
