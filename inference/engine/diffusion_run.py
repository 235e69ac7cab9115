"""Works on one request: plan, prefill, choose lengths, denoise, rerank; then the next canvas.

Each step makes at most one forward pass. Between steps the worker can serve another request or stop this one.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial

import torch

from inference.deadline import Deadline
from inference.engine.canvas import results
from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.layout import CanvasPlan, ComposedCanvas
from inference.engine.canvas.plan import CanvasPlanner
from inference.engine.canvas.results import FilledCanvas, RankedFill, RequestProgress, TokenTexts
from inference.engine.denoising import length, prune, rank
from inference.engine.denoising.denoise import Denoiser, NoiseSource, PartialNoise
from inference.engine.denoising.length import DenoisingBudget
from inference.engine.denoising.rank import FillRanker
from inference.engine.denoising.unmask import ResizeRules, UnmaskingDenoiser
from inference.engine.loaded_model import LoadedModel
from inference.engine.request_run import RequestRun
from inference.messages import Done, Draft, FilledHoles, InfillRequest, Outcome
from inference.models.family import PrefixHandle
from inference.models.infill_config import ENTROPY_BOUND

DiffusionEvent = Draft | FilledHoles | Done


class DiffusionRun(RequestRun[DiffusionEvent]):
    """Yields drafts if requested, then the candidates, best first, then Done."""

    def __init__(self, model: LoadedModel, request: InfillRequest, deadline: Deadline | None) -> None:
        """Raises RequestError if the request makes no sense."""
        super().__init__(deadline)
        self._model = model
        self._request = request
        self._planner = CanvasPlanner(
            model.vocabulary, model.infill_config, request, fills_canvas=model.is_full_canvas_free
        )
        generator = torch.Generator(model.adapter.device).manual_seed(model.seeds.seed_for(request))
        self._noise = NoiseSource.from_model(model.traits, model.infill_config, generator)
        self._budget = DenoisingBudget.from_request(request, model.infill_config)
        self._masks_again = rank.ranks_by_masking(model.traits)
        self._num_finished = max(8 if self._masks_again else 4, self._budget.candidates)
        """How many canvases to denoise to the end."""
        self._trials: list[FilledCanvas] = []

    def _run(self) -> Generator[DiffusionEvent | None, None, None]:
        """Fills one canvas after the other. The first gets at least one step; for others there may be no time."""
        canvases = RequestProgress(self._planner)
        if self._request.prefill_only:
            self._model.adapter.prefill_when_idle(self._planner.plan(*canvases.next_canvas()).prefix_ids)
            yield Done(self._request.id, Outcome.COMPLETE, self._counters.stats())
            return
        while not canvases.is_complete and not (canvases.done and self._is_late()):
            fills: list[RankedFill] = []
            group, previous = canvases.next_canvas()
            yield from self._fill_canvas(group, previous, fills)
            canvases.done[group.start] = fills
        holes = self._planner.request.holes
        ms = self._counters.ms()
        yield from results.combine_canvas_fills(
            self._request.id, canvases.done, holes, self._budget.candidates, ms, complete=not self._is_late()
        )
        outcome = Outcome.DEADLINE if self._is_late() else Outcome.COMPLETE
        yield Done(self._request.id, outcome, self._counters.stats())

    def _fill_canvas(
        self, group: range, previous: Sequence[str], fills: list[RankedFill]
    ) -> Iterator[DiffusionEvent | None]:
        """Fills one canvas after those with the `previous` texts; appends its fills, best first."""
        self._counters.canvases += 1
        with ExitStack() as stack:
            plan, context = yield from self._prefill(group, previous, stack)
            ranker = FillRanker(self._model, context, plan)
            rows = [plan.compose(lengths) for lengths in self._lengths(plan)]
            yield None
            loop = self._denoiser(
                context, plan, prune.trial_canvases(rows, self._num_finished, self._model.traits.free_rows)
            )
            yield from self._denoise(loop, ranker, plan, previous)
            filled = [*loop.filled_canvases, *self._trials]
            scores = yield from self._score_by_masking(ranker, filled, rank.NUM_MASKED_PARTS)
            fills += ranker.rank(filled, quick=self._is_late(), scores=scores)
            if self._request.drafts:
                yield self._draft(fills[0].canvas, plan, previous, loop)

    def _prefill(
        self, group: range, previous: Sequence[str], stack: ExitStack
    ) -> Generator[None, None, tuple[CanvasPlan, PrefixHandle]]:
        """Plans a canvas and prefills its prefix, a shorter one if the whole takes too long. `stack` closes it."""
        adapter = self._model.adapter
        for short in (False, True):
            plan = self._planner.plan(group, previous, short=short)
            context = stack.enter_context(closing(adapter.open_prefix(plan.prefix_ids)))
            if (yield from self._prefill_context(context, plan.prefix_ids, row_s=adapter.seconds_per_row)) or short:
                break
            stack.close()
        return plan, context

    def _lengths(self, plan: CanvasPlan) -> list[tuple[int, ...]]:
        """The lengths to try, each one per hole: as many as candidates are requested, or as a good choice needs."""
        holes = plan.holes
        is_late = self._is_late()
        num_candidates = 1 if is_late else self._budget.candidates
        if self._model.traits.can_resize:
            choices = length.resizable_start_lengths(holes, num_candidates)
        elif is_late:
            choices = [length.usual_length_per_hole(holes)]
        else:
            count = max(num_candidates, rank.num_lengths_to_try(self._model.traits, holes))
            choices = length.candidate_lengths(holes, count, usual_first=self._masks_again)
        return [choices[index % len(choices)] for index in range(max(num_candidates, len(choices)))]

    def _denoiser(self, context: PrefixHandle, plan: CanvasPlan, rows: Sequence[ComposedCanvas]) -> Denoiser:
        model = self._model
        canvas = CanvasBatch.from_canvases(rows, model.adapter.device)
        sampler = model.infill_config.sampler
        loop: Callable[..., Denoiser] = Denoiser
        if sampler.method != ENTROPY_BOUND:
            loop = partial(UnmaskingDenoiser, resizing=ResizeRules.from_model(model, plan.holes))
        return loop(
            context,
            canvas,
            sampler,
            self._noise,
            max_steps=1 if self._is_late() else self._budget.max_steps,
            constraint=model.constraint_builder.build(canvas, plan.holes),
            start=PartialNoise.from_holes(canvas, plan.holes, self._noise.generator),
        )

    def _denoise(
        self, loop: Denoiser, ranker: FillRanker, plan: CanvasPlan, previous: Sequence[str]
    ) -> Iterator[DiffusionEvent | None]:
        """Denoises until the fills are stable or the deadline is past."""
        self._trials.clear()
        while not loop.is_finished:
            loop.step()
            self._counters.steps += 1
            if prune.is_pruning_due(loop, plan, self._num_finished):
                yield None
                scores = yield from self._score_by_masking(ranker, loop.filled_canvases, 1)
                ranked = prune.prune(ranker, loop, plan, self._num_finished, scores)
                self._trials += ranked if not self._masks_again else []
            yield self._draft(loop.filled_canvas(0), plan, previous, loop) if self._request.drafts else None
            if self._is_late():
                break

    def _score_by_masking(
        self, ranker: FillRanker, filled: Sequence[FilledCanvas], parts: int
    ) -> Generator[None, None, list[float] | None]:
        """Scores the canvases by masking, in one pass once it is late; None if all are equal or masking is not used."""
        if not ranker.uses_masking or len({tuple(canvas.ids) for canvas in filled}) == 1:
            return None
        scores: list[float] = []
        for _ in ranker.score_by_masking(filled, scores, 0 if self._is_late() else parts, self._is_late):
            self._counters.steps += 1
            yield None
        return scores

    def _draft(self, canvas: FilledCanvas, plan: CanvasPlan, previous: Sequence[str], loop: Denoiser) -> Draft:
        """A draft of the current canvas and of the `previous` texts; the holes of later canvases are empty."""
        parts: dict[int, TokenTexts] = {index: ((text,), (1.0,)) for index, text in enumerate(previous)}
        for index, hole in enumerate(plan.holes):
            parts[plan.hole_range.start + index] = canvas.token_texts(self._model.vocabulary, index, hole)
        num_holes = len(self._planner.request.holes)
        return results.build_draft(self._request.id, loop.step_number, loop.max_steps, parts, num_holes)
