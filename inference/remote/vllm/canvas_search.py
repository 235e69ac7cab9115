"""Fills one canvas: settles the lengths, denoises a canvas of each beside the others, and ranks what they hold."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from inference.engine.canvas import answered, fills
from inference.engine.canvas.answered import RankedFill
from inference.engine.canvas.fills import Written
from inference.engine.canvas.plan import Plan
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.search.effort import Effort
from inference.messages import Hole
from inference.models.family import Properties
from inference.remote.pause import ServerError
from inference.remote.vllm import rank
from inference.remote.vllm.lengths import Lengths
from inference.remote.vllm.reading import Reader
from inference.remote.vllm.rules import TextRules
from inference.remote.vllm.trial import LEAST_HEAT, Noise, Trial, denoise, steps_of


@dataclass(frozen=True)
class Model:
    """What is known here of a served model."""

    vocabulary: Vocabulary
    properties: Properties
    rules: TextRules


class CanvasSearch:
    """The work on one canvas. `run` it in a task; what it holds can be looked at, and narrowed down, meanwhile."""

    def __init__(self, model: Model, reader: Reader, plan: Plan, noise: Noise, effort: Effort, *, quick: bool) -> None:
        self.plan = plan
        self.most_steps = steps_of(model.properties, effort.max_steps)
        self._model, self._reader, self._noise = model, reader, noise
        self._effort, self._quick = effort, quick
        self._trials: list[Trial] = []
        self._working: dict[asyncio.Task[None], Trial] = {}

    async def run(self, deadline: float | None, on_step: Callable[[], None]) -> list[RankedFill]:
        """Its answers, best first: at the `deadline` those of all canvases as they stand, empty where none was read.

        Calls `on_step` whenever the drafts have changed. Raises ServerError where no canvas was read.
        """
        try:
            async with asyncio.timeout(None if deadline is None else max(0.0, deadline - time.monotonic())):
                await self._denoise(on_step)
                return await self._ranked()
        except TimeoutError:
            return self._ranked_by([(each.written, rank.by_confidence(each.written)) for each in self._read()])
        finally:
            await self._stop()

    @property
    def draft(self) -> Written | None:
        """The canvas of the likeliest length as it stands; None before anything is known of one."""
        return next((each.written for each in self._read()), None)

    def keep_agreeing(self, number: int, text: str) -> bool:
        """Drops the canvases whose hole of this number (from 0) does not begin with `text` as it stands.

        Returns False where none agrees, or nothing is known of any.
        """
        if not any(self._texts(each.written)[number].startswith(text) for each in self._read()):
            return False
        for task, trial in self._working.items():
            if not self._texts(trial.written)[number].startswith(text):
                task.cancel()
        self._trials = [each for each in self._trials if self._texts(each.written)[number].startswith(text)]
        return True

    async def _denoise(self, on_step: Callable[[], None]) -> None:
        lengths = Lengths(self._reader, self.plan, self._model.properties, self._model.rules, self._noise)
        chosen = await lengths.choices(self._effort.candidates, quick=self._quick)
        holes = self.plan.layout.holes
        for number, sizes in enumerate(chosen):
            row = self.plan.layout.compose(sizes).cut(self._model.properties.suffix_tokens)
            trial = Trial(row, holes, self._model.rules, self._noise)
            again = sizes in chosen[:number]
            self._trials.append(trial)
            self._working[asyncio.create_task(self._one(trial, on_step, again=again), name="canvas")] = trial
        await self._finished()

    async def _one(self, trial: Trial, on_step: Callable[[], None], *, again: bool) -> None:
        """`again`: another canvas has the same lengths, so this one is to become something else."""
        heat = max(self._model.properties.sampler.t_max, LEAST_HEAT) if again else 0.0
        await denoise(self._reader, trial, self._model.properties, self.most_steps, on_step, heat)

    async def _finished(self) -> None:
        """Waits for all canvases. Raises the first error if no canvas was read to its end."""
        await asyncio.wait(self._working)
        tasks = [task for task in self._working if not task.cancelled()]
        errors = [error for task in tasks if (error := task.exception()) is not None]
        if errors and len(errors) == len(tasks):
            raise errors[0]
        for error in errors:
            if not isinstance(error, ServerError | TimeoutError):
                raise error

    async def _ranked(self) -> list[RankedFill]:
        """All that was filled, best first. Where there is one answer alone, nothing is asked about it."""
        written = [each.written for each in self._trials if each.is_text and not each.left]
        if len({self._texts(each) for each in written}) < 2:
            return self._ranked_by([(each, rank.by_confidence(each)) for each in written])
        asked = (rank.suffix_likelihood(self._reader, self.plan, each, self._noise) for each in written)
        found = await asyncio.gather(*asked, return_exceptions=True)
        behind = [None if isinstance(each, BaseException) else each for each in found]
        if any(each is None for each in behind):
            behind = [None] * len(behind)
        scores = [rank.score(each, suffix) for each, suffix in zip(written, behind, strict=True)]
        return self._ranked_by(list(zip(written, scores, strict=True)))

    def _ranked_by(self, scored: Sequence[tuple[Written, float]]) -> list[RankedFill]:
        best: dict[tuple[str, ...], RankedFill] = {}
        for number in sorted(range(len(scored)), key=lambda each: -scored[each][1]):
            written, score = scored[number]
            texts = self._texts(written)
            tokens = sum(end - first for first, _, end in written.spans)
            best.setdefault(texts, RankedFill(texts, score, tokens, number, written))
        return sorted(best.values(), key=answered.flaws)

    def _read(self) -> list[Trial]:
        """The canvases of which something is known, all of it text."""
        return [each for each in self._trials if each.is_text and (each.steps or not each.left)]

    def _texts(self, written: Written) -> tuple[str, ...]:
        return fills.texts(self._model.vocabulary, written.ids, written.spans, self.plan.layout.holes).texts

    async def _stop(self) -> None:
        """Aborts what is still asked of the server."""
        for task in self._working:
            task.cancel()
        if self._working:
            await asyncio.wait(self._working)


def begin_as_they_must(found: Sequence[RankedFill], holes: Sequence[Hole]) -> list[RankedFill]:
    """Those of the answers whose texts begin as their holes must."""
    return [each for each in found if answered.agrees(each.texts, holes)]
