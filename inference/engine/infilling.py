"""Works on one request: plan, encode, settle the lengths, denoise, rerank; then the next canvas.

Each step makes at most one forward pass. Between two steps the worker can turn to another request, amend this one or
stop it.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import torch

from inference.engine.canvas import answered, fills
from inference.engine.canvas.answered import Canvases, RankedFill
from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.fills import Written
from inference.engine.canvas.layout import Row
from inference.engine.canvas.plan import Group, Plan, Planner
from inference.engine.loaded_model import LoadedModel
from inference.engine.search import length, prune, rank
from inference.engine.search.denoise import Denoising, Start, noise_of
from inference.engine.search.length import Effort
from inference.engine.search.unmask import Resizing, Unmasking
from inference.engine.work import Work
from inference.messages import Candidate, Done, Draft, InfillRequest, Outcome
from inference.models.family import Context
from inference.models.properties import ENTROPY_BOUND

InfillEvent = Draft | Candidate | Done


class Infilling(Work[InfillEvent]):
    """The work on a request, at most one forward pass a step: drafts if wanted, candidates, best first, then Done."""

    def __init__(self, model: LoadedModel, request: InfillRequest, deadline: float | None) -> None:
        """`deadline` is in seconds of `time.monotonic()`. Raises RequestError if the request makes no sense."""
        super().__init__(deadline)
        self._model = model
        self._request = request
        self._planner = Planner(model.vocabulary, model.properties, request, fills_canvas=model.fills_canvas)
        self._canvases = Canvases(self._planner)
        generator = torch.Generator(model.family.device)
        if request.seed is None:
            generator.seed()
        else:
            generator.manual_seed(request.seed)
        self._noise = noise_of(model.traits, model.properties, generator)
        self._effort = Effort.of(request, model.properties)
        self._masks_again = rank.by_masking(model.traits)
        self._finished = max(rank.finished(model.traits), self._effort.candidates)
        self._trials: list[Written] = []
        self._ends: list[float] = []

    def amend(self, hole: int, text: str) -> None:
        """Pins `text`, the whole text now at the start of a hole, before the next step. Raises RequestError."""
        self._canvases.pin(hole, text)

    def _work(self) -> Generator[InfillEvent | None, None, None]:
        """Works canvas after canvas. The first gets at least one step; the deadline may leave no time for others."""
        canvases = self._canvases
        while not canvases.are_all and not (canvases.done and self._late()):
            found: list[RankedFill] = []
            group, earlier = canvases.begin()
            yield from self._canvas(group, earlier, found)
            canvases.add(group, found)
        most = self._effort.candidates
        complete = not self._late()
        yield from canvases.candidates(self._request.id, most, self._counters.ms(), complete=complete)
        outcome = Outcome.DEADLINE if self._late() else Outcome.COMPLETE
        yield Done(self._request.id, outcome, self._counters.stats())

    def _canvas(self, group: Group, earlier: Sequence[str], found: list[RankedFill]) -> Iterator[InfillEvent | None]:
        """Fills one canvas behind the `earlier` fills; appends its answers to `found`, best first."""
        self._counters.canvases += 1
        self._ends = []
        with ExitStack() as stack:
            plan, context = yield from self._read(group, earlier, stack)
            yield from self._find_ends(context, plan)
            rows = [plan.layout.compose(lengths) for lengths in self._lengths(plan)]
            yield None
            loop = self._denoising(context, plan, prune.tried(rows, self._finished, self._model.traits.free_rows))
            if not (yield from self._denoise(loop, context, plan, earlier)):
                return
            written = [*loop.standing, *self._agreeing(self._trials, plan)]
            known = yield from self._by_masking(context, plan, written, rank.PARTS)
            if self._canvases.has_news and not self._agreeing(written, plan):
                return
            found += rank.ranked(self._model, context, plan, written, quick=self._late(), known=known)
            if self._request.drafts:
                yield self._draft(found[0].written, plan, earlier, loop)

    def _read(
        self, group: Group, earlier: Sequence[str], stack: ExitStack
    ) -> Generator[None, None, tuple[Plan, Context]]:
        """Plans a canvas and reads its prefix, which `stack` closes: a short one once reading it all takes too long."""
        family = self._model.family
        for short in (False, True):
            plan = self._planner.plan(group, earlier, short=short)
            context = stack.enter_context(closing(family.open(plan.prefix_ids)))
            if (yield from self._encode(context, plan.prefix_ids, row_s=family.row_s)) or short:
                break
            stack.close()
        return plan, context

    def _agreeing(self, written: Sequence[Written], plan: Plan) -> list[Written]:
        holes = self._planner.request.holes[plan.group.first : plan.group.end]

        def agrees(one: Written) -> bool:
            texts = fills.texts(self._model.vocabulary, one.ids, one.spans, plan.layout.holes)
            return answered.agrees(texts, holes)

        return list(filter(agrees, written))

    def _lengths(self, plan: Plan) -> list[tuple[int, ...]]:
        """The lengths to try, one per hole; as many choices as candidates are wanted, or as a good choice needs."""
        holes = plan.layout.holes
        count = 1 if self._late() else max(self._effort.candidates, rank.lengths(self._model.traits, holes))
        if self._model.traits.resizes:
            choices = length.to_resize(holes, 1 if self._late() else self._effort.candidates)
        elif self._late():
            choices = [length.usual(holes)]
        else:
            choices = length.guessed(holes, count, usual_first=self._masks_again)
        missing = 0 if self._late() else max(0, self._effort.candidates - len(choices))
        return choices + [choices[i % len(choices)] for i in range(missing)]

    def _find_ends(self, context: Context, plan: Plan) -> Iterator[None]:
        """Asks where the hole ends, if fills are also ranked by that."""
        if self._masks_again and not self._late() and rank.weights_for(self._model, plan).end:
            self._ends = rank.end_chances(self._model, context, plan)
            if self._ends:
                self._counters.steps += 1
                yield None

    def _denoising(self, context: Context, plan: Plan, rows: Sequence[Row]) -> Denoising:
        model = self._model
        holes = plan.layout.holes
        canvas = CanvasBatch.of(rows, model.family.device)
        how: dict[str, Any] = {
            "constraint": model.constraints.of(canvas, holes),
            "max_steps": 1 if self._late() else self._effort.max_steps,
            "start": Start.of(canvas, holes, self._noise.generator),
        }
        sampler = model.properties.sampler
        if sampler.method == ENTROPY_BOUND:
            return Denoising(context, canvas, sampler, self._noise, **how)
        return Unmasking(context, canvas, sampler, self._noise, resizing=Resizing.of(model, holes), **how)

    def _denoise(
        self, loop: Denoising, context: Context, plan: Plan, earlier: Sequence[str]
    ) -> Generator[InfillEvent | None, None, bool]:
        """Steps until the answer is stable or it is late. False if typed text disagrees: then it is filled again."""
        self._trials.clear()
        pin = partial(prune.pin, self._model, loop, plan)
        while not loop.finished:
            loop.step()
            self._counters.steps += 1
            if prune.is_due(loop, plan, self._finished):
                yield None
                known = yield from self._by_masking(context, plan, loop.standing, 1)
                standing = prune.prune(self._model, loop, context, plan, self._finished, known)
                self._trials += standing if not self._masks_again else []
            yield self._draft(loop.written(0), plan, earlier, loop) if self._request.drafts else None
            if self._canvases.has_news and not self._canvases.go_on(plan.group, earlier, pin):
                return False
            if self._late():
                break
        return True

    def _by_masking(
        self, context: Context, plan: Plan, written: Sequence[Written], parts: int
    ) -> Generator[None, None, list[float] | None]:
        """The scores of different answers, in one pass once it is late; None if masking finds none, or none agrees."""
        lines = all(hole.single_line for hole in plan.layout.holes)
        if not (self._masks_again and lines) or len({tuple(one.ids) for one in written}) == 1:
            return None
        weights = rank.weights_for(self._model, plan)
        left = 0 if self._late() else parts
        scoring = rank.masked_scores(self._model, context, plan, written, weights, left, self._ends)
        while True:
            try:
                next(scoring)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            self._counters.steps += 1
            yield None
            if self._canvases.has_news and not self._agreeing(written, plan):
                return None
            if left > 1 and self._late():
                scoring = rank.masked_scores(self._model, context, plan, written, weights, 0, self._ends)
                left = 1
            left -= 1

    def _draft(self, shown: Written, plan: Plan, earlier: Sequence[str], loop: Denoising) -> Draft:
        steps = (loop.step_number, loop.max_steps)
        holes = len(self._planner.request.holes)
        return answered.draft(self._model.vocabulary, self._request.id, steps, shown, plan, earlier, holes)
