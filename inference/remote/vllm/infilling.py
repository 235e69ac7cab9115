"""Works on one request: plans its canvases, has a server fill them one after another, and reports the results."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

from inference.engine.canvas import answered
from inference.engine.canvas.answered import Canvases, RankedFill
from inference.engine.canvas.layout import OPEN
from inference.engine.canvas.plan import Group, Plan, Planner
from inference.engine.search.effort import Effort
from inference.messages import Draft, InfillRequest
from inference.remote.client import Client
from inference.remote.vllm.canvas_search import CanvasSearch, Model
from inference.remote.vllm.reading import CanvasReader
from inference.remote.vllm.trial import SeededNoise
from inference.remote.work import RemoteEvent, RemoteWork


class RemoteInfilling(RemoteWork):
    """The work on one request, canvas after canvas."""

    def __init__(
        self,
        client: Client,
        name: str,
        model: Model,
        request: InfillRequest,
        deadline: float | None,
        on_refused: Callable[[], None],
    ) -> None:
        """As `RemoteWork`. `name` is the server's name for the model."""
        super().__init__(request, deadline, on_refused)
        self._client, self._name, self._model = client, name, model
        self._noise = SeededNoise(model.properties, len(model.vocabulary), request.seed)
        self._effort = Effort.of(request, model.properties)
        self._canvases: Canvases | None = None
        self._typed: dict[int, str] = {}
        """The text typed before the canvases were planned, by the number of the hole."""

    def _pin(self, hole: int, text: str) -> None:
        if self._canvases is None:
            self._typed[hole] = text
        else:
            self._canvases.pin(hole, text)

    async def _work(self) -> AsyncGenerator[RemoteEvent, None]:
        planner = await self._planned()
        canvases = self._canvases = Canvases(planner)
        while not canvases.are_all and not self._late():
            group, earlier = await asyncio.to_thread(canvases.begin)
            plan = await asyncio.to_thread(_plan, planner, group, earlier)
            found: list[RankedFill] = []
            async for draft in self._canvas(canvases, plan, earlier, found):
                yield draft
            holes = planner.request.holes[group.first : group.end]
            found = [each for each in found if answered.agrees(each.texts, holes)]
            if not found and not canvases.is_amended:  # asking again would bring the same
                break
            canvases.add(group, found)
        most, complete = self._effort.candidates, not self._late()
        for candidate in canvases.candidates(self._request.id, most, self._counters.ms(), complete=complete):
            yield candidate
        yield self._done()

    async def _planned(self) -> Planner:
        """Tokenises in a thread, because the text may be long."""
        properties = self._model.properties
        planner = await asyncio.to_thread(Planner, self._model.vocabulary, properties, self._request)
        for hole, text in self._typed.items():
            planner.pin_start(hole, text)
        return planner

    async def _canvas(
        self, canvases: Canvases, plan: Plan, earlier: Sequence[str], found: list[RankedFill]
    ) -> AsyncIterator[Draft]:
        """Has one canvas filled behind the `earlier` fills; appends its answers to `found`, best first.

        Appends nothing if the text typed meanwhile disagrees with all of them: then it must be filled again.
        """
        self._counters.canvases += 1
        size = len(self._model.vocabulary)
        reader = CanvasReader(self._client, self._name, plan.prefix_ids, self._deadline, self._counters, size)
        effort, quick = self._effort, self._request.quick
        search = CanvasSearch(self._model, reader, plan, self._noise, effort, quick=quick)
        working = asyncio.create_task(search.run(self._deadline, self._news.set), name="canvases")
        working.add_done_callback(lambda _: self._news.set())
        try:
            while not working.done():
                await self._news.wait()
                self._news.clear()
                is_amended = canvases.has_news and not working.done()
                if is_amended and not canvases.go_on(plan.group, earlier, search.keep_agreeing):
                    return
                if self._request.drafts and (draft := self._draft(search, earlier)):
                    yield draft
            found += working.result()
        finally:
            working.cancel()
            await asyncio.wait([working])

    def _draft(self, search: CanvasSearch, earlier: Sequence[str]) -> Draft | None:
        shown = search.draft
        if shown is None:
            return None
        steps = shown.steps, search.most_steps
        return answered.draft(
            self._model.vocabulary, self._request.id, steps, shown, search.plan, earlier, len(self._parts.holes)
        )


def _plan(planner: Planner, group: Group, earlier: Sequence[str]) -> Plan:
    """A canvas, with everything computed once for it: the possible starts of a row involve the whole vocabulary."""
    plan = planner.plan(group, earlier)
    for hole in plan.layout.holes:
        hole.may_begin(OPEN)
    return plan
