"""Scores given texts in the holes of a request, by the same likelihoods that the model's own fills are ranked by.

The canvases are those that the request would be filled on. A canvas behind another one sees the first candidate in the
holes before it, as it sees the best fill when holes are filled.
"""

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any

import msgspec

from inference.engine.canvas.fills import Written
from inference.engine.canvas.plan import Group, Plan, Planner
from inference.engine.errors import CANNOT_SCORE, RequestError
from inference.engine.loaded_model import LoadedModel
from inference.engine.search import answers, masked_rank, policy
from inference.messages import Done, Hole, InfillRequest, Outcome, ScoreRequest, Scores, Stats
from inference.models.family import Context

MOST_CANDIDATES = 16


class Scoring(Generator[Scores | Done | None, None, None]):
    """The work on one request, as a generator: each step does at most one forward pass.

    It yields `Scores`, then Done; at the deadline Done alone. None is a step with nothing to report. Closing it stops
    the work.
    """

    def __init__(self, model: LoadedModel, request: ScoreRequest, deadline: float | None) -> None:
        """`deadline` is in seconds of `time.monotonic()`. Raises RequestError where the request makes no sense."""
        self._began = time.monotonic()
        self._model, self._request, self._deadline = model, request, deadline
        self._by_masking = policy.of(model.traits).by_masking
        if not (model.traits.can_score or self._by_masking):
            raise RequestError(CANNOT_SCORE)
        self._planner = _planner(model, request)
        _check(request, len(self._planner.request.holes))
        self._given = [_planner(model, request, texts) for texts in request.candidates]
        self._steps = self._work()

    def send(self, value: None, /) -> Scores | Done | None:
        """The next event. Raises StopIteration after Done."""
        return self._steps.send(value)

    def throw(self, *error: Any) -> Scores | Done | None:
        """Raises the error where the work stands; `close` uses it to end the work."""
        return self._steps.throw(*error)

    def _work(self) -> Generator[Scores | Done | None, None, None]:
        sums, canvases, first = [0.0] * len(self._given), 0, 0
        while first < len(self._planner.request.holes):
            group = self._planner.group_from(first)
            if canvases and self._late():
                break
            found = yield from self._canvas(group)
            sums = [total + score for total, score in zip(sums, found, strict=True)]
            canvases, first = canvases + 1, group.end
        else:
            yield Scores(self._request.id, tuple(total / canvases for total in sums))
        outcome = Outcome.COMPLETE if first >= len(self._planner.request.holes) else Outcome.DEADLINE
        yield Done(self._request.id, outcome, Stats((time.monotonic() - self._began) * 1000, canvases=canvases))

    def _canvas(self, group: Group) -> Generator[None, None, list[float]]:
        """The score of each candidate in the holes of one canvas."""
        earlier = self._request.candidates[0][: group.first]
        plan = self._planner.plan(group, earlier)
        written = [_written(given.plan(group, earlier)) for given in self._given]
        with closing(self._model.family.open(plan.prefix_ids)) as context:
            for _ in context.encode():
                yield None
            return (yield from self._scores(context, plan, written))

    def _scores(self, context: Context, plan: Plan, written: Sequence[Written]) -> Generator[None, None, list[float]]:
        if not self._by_masking:
            return answers.scores(self._model, context, plan, written)
        return (
            yield from masked_rank.scores(self._model, context, plan, written, answers.weights_for(self._model, plan))
        )

    def _late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline


def _check(request: ScoreRequest, holes: int) -> None:
    """Raises RequestError where the candidates do not belong to the holes."""
    if not 1 <= len(request.candidates) <= MOST_CANDIDATES:
        raise RequestError(f"1 to {MOST_CANDIDATES} candidates can be scored at once, not {len(request.candidates)}")
    if wrong := next((texts for texts in request.candidates if len(texts) != holes), None):
        raise RequestError(f"a candidate has {len(wrong)} texts for {holes} holes")
    if () in request.candidates:
        raise RequestError(f"a candidate has no text for {holes} holes")


def _planner(model: LoadedModel, request: ScoreRequest, texts: Sequence[str] | None = None) -> Planner:
    """Plans the canvases with the holes open, or with `texts` in them."""
    segments, given = list(request.segments), iter(texts or ())
    for number, segment in enumerate(segments):
        if isinstance(segment, Hole):
            hole = msgspec.structs.replace(segment, starts_with="", text="", strength=1.0)
            text = next(given, None)
            segments[number] = hole if text is None else msgspec.structs.replace(hole, text=text, strength=0.0)
    same = InfillRequest(request.id, tuple(segments), request.language, request.path)
    return Planner(model.vocabulary, model.properties, same, fills_canvas=model.fills_canvas)


def _written(plan: Plan) -> Written:
    """A canvas whose holes are given, as if it had been written. Raises RequestError where it is too long for one."""
    try:
        row = plan.layout.compose([0] * len(plan.layout.holes))
    except ValueError as error:
        raise RequestError(f"the candidates do not fit: {error}") from error
    spans = tuple((first, first, end) for first, _, end in row.spans)
    return Written(row.ids, [1.0] * len(row.ids), spans, 0)
