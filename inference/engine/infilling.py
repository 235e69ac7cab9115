"""Works on one request: plan, encode, settle the lengths, denoise, rerank; then the next canvas.

Each step makes at most one forward pass. Between two steps the worker can turn to another request, amend this one or
stop it.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial

import torch

from inference.deadline import Deadline
from inference.engine.canvas import answered
from inference.engine.canvas.answered import Canvases, RankedFill, Written
from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.layout import Plan, Row
from inference.engine.canvas.plan import Planner
from inference.engine.loaded_model import LoadedModel
from inference.engine.search import length, prune, rank
from inference.engine.search.denoise import Denoising, Noise, Start
from inference.engine.search.length import Effort
from inference.engine.search.rank import Ranking
from inference.engine.search.unmask import Resizing, Unmasking
from inference.engine.work import Work
from inference.messages import Candidate, Done, Draft, InfillRequest, Outcome
from inference.models.family import PrefixHandle
from inference.models.infill_config import ENTROPY_BOUND

InfillEvent = Draft | Candidate | Done


class Infilling(Work[InfillEvent]):
    """The work on a request, at most one forward pass a step: drafts if wanted, candidates, best first, then Done."""

    def __init__(self, model: LoadedModel, request: InfillRequest, deadline: Deadline | None) -> None:
        """Raises RequestError if the request makes no sense."""
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
        self._noise = Noise.of(model.traits, model.properties, generator)
        self._effort = Effort.of(request, model.properties)
        self._masks_again = rank.by_masking(model.traits)
        self._finished = max(rank.finished(model.traits), self._effort.candidates)
        self._trials: list[Written] = []

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
        holes = self._planner.request.holes
        most = self._effort.candidates
        ms = self._counters.ms()
        yield from answered.candidates(self._request.id, canvases.done, holes, most, ms, complete=not self._late())
        outcome = Outcome.DEADLINE if self._late() else Outcome.COMPLETE
        yield Done(self._request.id, outcome, self._counters.stats())

    def _canvas(self, group: range, earlier: Sequence[str], found: list[RankedFill]) -> Iterator[InfillEvent | None]:
        """Fills one canvas behind the `earlier` fills; appends its answers to `found`, best first."""
        self._counters.canvases += 1
        with ExitStack() as stack:
            plan, context = yield from self._read(group, earlier, stack)
            ranking = Ranking(self._model, context, plan)
            yield from self._find_ends(ranking)
            rows = [plan.compose(lengths) for lengths in self._lengths(plan)]
            yield None
            loop = self._denoising(context, plan, prune.tried(rows, self._finished, self._model.traits.free_rows))
            if not (yield from self._denoise(loop, ranking, plan, earlier)):
                return
            written = [*loop.standing, *self._agreeing(self._trials, plan)]
            known = yield from self._by_masking(ranking, plan, written, rank.PARTS)
            if self._canvases.has_news and not self._agreeing(written, plan):
                return
            found += ranking.ranked(written, quick=self._late(), known=known)
            if self._request.drafts:
                yield self._draft(found[0].written, plan, earlier, loop)

    def _read(
        self, group: range, earlier: Sequence[str], stack: ExitStack
    ) -> Generator[None, None, tuple[Plan, PrefixHandle]]:
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
        holes = self._planner.request.holes[plan.group.start : plan.group.stop]
        return [one for one in written if answered.agrees(one.texts(self._model.vocabulary, plan.holes), holes)]

    def _lengths(self, plan: Plan) -> list[tuple[int, ...]]:
        """The lengths to try, one per hole; as many choices as candidates are wanted, or as a good choice needs."""
        holes = plan.holes
        is_late = self._late()
        wanted = 1 if is_late else self._effort.candidates
        if self._model.traits.can_resize:
            choices = length.to_resize(holes, wanted)
        elif is_late:
            choices = [length.usual(holes)]
        else:
            count = max(wanted, rank.lengths(self._model.traits, holes))
            choices = length.guessed(holes, count, usual_first=self._masks_again)
        return [choices[number % len(choices)] for number in range(max(wanted, len(choices)))]

    def _find_ends(self, ranking: Ranking) -> Iterator[None]:
        """Asks where the hole ends, if fills are also ranked by that."""
        if ranking.masks and not self._late():
            ranking.ends = ranking.end_chances()
            if ranking.ends:
                self._counters.steps += 1
                yield None

    def _denoising(self, context: PrefixHandle, plan: Plan, rows: Sequence[Row]) -> Denoising:
        model = self._model
        canvas = CanvasBatch.of(rows, model.family.device)
        sampler = model.properties.sampler
        loop: Callable[..., Denoising] = Denoising
        if sampler.method != ENTROPY_BOUND:
            loop = partial(Unmasking, resizing=Resizing.of(model, plan.holes))
        return loop(
            context,
            canvas,
            sampler,
            self._noise,
            max_steps=1 if self._late() else self._effort.max_steps,
            constraint=model.constraints.of(canvas, plan.holes),
            start=Start.of(canvas, plan.holes, self._noise.generator),
        )

    def _denoise(
        self, loop: Denoising, ranking: Ranking, plan: Plan, earlier: Sequence[str]
    ) -> Generator[InfillEvent | None, None, bool]:
        """Steps until the answer is stable or it is late. False if typed text disagrees: then it is filled again."""
        self._trials.clear()
        pin = partial(prune.pin, self._model, loop, plan)
        while not loop.finished:
            loop.step()
            self._counters.steps += 1
            if prune.is_due(loop, plan, self._finished):
                yield None
                known = yield from self._by_masking(ranking, plan, loop.standing, 1)
                standing = prune.prune(ranking, loop, plan, self._finished, known)
                self._trials += standing if not self._masks_again else []
            yield self._draft(loop.written(0), plan, earlier, loop) if self._request.drafts else None
            if self._canvases.has_news and not self._canvases.go_on(plan.group, earlier, pin):
                return False
            if self._late():
                break
        return True

    def _by_masking(
        self, ranking: Ranking, plan: Plan, written: Sequence[Written], parts: int
    ) -> Generator[None, None, list[float] | None]:
        """The scores of different answers, in one pass once it is late; None if masking finds none, or none agrees."""
        if not ranking.masks or len({tuple(one.ids) for one in written}) == 1:
            return None
        scores: list[float] = []
        for _ in ranking.score_by_masking(written, scores, 0 if self._late() else parts, self._late):
            self._counters.steps += 1
            yield None
            if self._canvases.has_news and not self._agreeing(written, plan):
                return None
        return scores

    def _draft(self, shown: Written, plan: Plan, earlier: Sequence[str], loop: Denoising) -> Draft:
        """One canvas as it is now, the texts of the earlier ones, and nothing in the others' holes."""
        before = [((text,), (1.0,)) for text in earlier]
        here = [shown.pieces(self._model.vocabulary, number, hole) for number, hole in enumerate(plan.holes)]
        nothing: tuple[tuple[str, ...], tuple[float, ...]] = ((), ())
        after = [nothing] * (len(self._planner.request.holes) - plan.group.stop)
        texts, confidences = zip(*before, *here, *after, strict=True)
        return Draft(self._request.id, loop.step_number, loop.max_steps, texts, confidences)
