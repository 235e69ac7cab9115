"""Works on one request: plans its canvases, has a server fill them one after another, and reports what comes of it."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from inference.engine.canvas import answered
from inference.engine.canvas.answered import Filled, RankedFill
from inference.engine.canvas.layout import OPEN
from inference.engine.canvas.plan import Group, Plan, Planner, text_and_holes
from inference.engine.errors import RequestError
from inference.engine.search.effort import Effort
from inference.messages import Candidate, Done, Draft, InfillRequest, Outcome
from inference.remote.answers import brings_controls
from inference.remote.client import Client
from inference.remote.vllm.canvas_search import CanvasSearch, Model, begin_as_they_must
from inference.remote.vllm.reading import Counters, Reader
from inference.remote.vllm.trial import Noise

RemoteEvent = Draft | Candidate | Done


class RemoteInfilling:
    """The work on one request: drafts if it wants them, the candidates, best first, then Done.

    Cancelling the task that waits for an item, and `aclose`, abort what is asked of the server.
    """

    def __init__(self, client: Client, name: str, model: Model, request: InfillRequest, deadline: float | None) -> None:
        """`name` is what the server calls the model. Raises RequestError where the request makes no sense."""
        self._client, self._name, self._model = client, name, model
        self._request, self._deadline = request, deadline
        self._holes = len(text_and_holes(request).holes)
        self._noise = Noise(model.properties, len(model.vocabulary), request.seed)
        self._effort = Effort.of(request, model.properties)
        self._counters = Counters()
        self._planner: Planner | None = None
        self._typed: dict[int, str] = {}
        """All that was typed so far, by the number of the hole."""
        self._changed = False
        self._news = asyncio.Event()
        self._events = self._work()

    def __aiter__(self) -> AsyncIterator[RemoteEvent]:
        """The events as they come."""
        return self._events

    def amend(self, hole: int, text: str) -> None:
        """Pin `text`, all that now stands at the start of a hole. Raises RequestError where there is no such hole."""
        if not 0 <= hole < self._holes:
            raise RequestError(f"the request has no hole {hole}")
        if self._planner is not None:
            self._planner.pin_start(hole, text)
        self._typed[hole] = text
        self._changed = True
        self._news.set()

    async def aclose(self) -> None:
        """Abort what still runs."""
        await self._events.aclose()

    async def _work(self) -> AsyncGenerator[RemoteEvent, None]:
        planner = await self._planned()
        canvases: list[Filled] = []
        while answered.end(canvases) < self._holes and not self._late():
            group = await asyncio.to_thread(planner.group_from, answered.end(canvases))
            earlier = [text for canvas in canvases for text in canvas.found[0].texts]
            found: list[RankedFill] = []
            async for draft in self._canvas(planner, group, earlier, found):
                yield draft
            found = begin_as_they_must(found, planner.request.holes[group.first : group.end])
            if found:
                canvases.append(Filled(group, found))
            elif not self._changed:  # asking again would bring the same
                break
            if self._changed:
                self._changed = False
                canvases = canvases[: answered.still_good(canvases, planner.request.holes)]
        outcome = Outcome.DEADLINE if self._late() else Outcome.COMPLETE
        if canvases:
            for candidate in self._candidates(planner, canvases):
                yield candidate
        yield Done(self._request.id, outcome, self._counters.stats())

    async def _planned(self) -> Planner:
        """Tokenises in a thread, for the text may be long."""
        properties = self._model.properties
        planner = await asyncio.to_thread(Planner, self._model.vocabulary, properties, self._request)
        for hole, text in self._typed.items():
            planner.pin_start(hole, text)
        self._planner = planner
        self._changed = False
        return planner

    def _candidates(self, planner: Planner, canvases: Sequence[Filled]) -> list[Candidate]:
        holes, ms = planner.request.holes, self._counters.ms()
        complete = not self._late()
        most = self._effort.candidates
        return list(answered.candidates(self._request.id, canvases, holes, most, ms, complete=complete))

    async def _canvas(
        self, planner: Planner, group: Group, earlier: Sequence[str], found: list[RankedFill]
    ) -> AsyncIterator[Draft]:
        """Has one canvas filled behind the `earlier` fills; its answers, best first, are appended to `found`.

        None are where what was typed meanwhile disagrees with all of it: then it has to be filled anew.
        """
        self._counters.canvases += 1
        seen = dict(self._typed)
        plan = await asyncio.to_thread(_plan, planner, group, earlier)
        size = len(self._model.vocabulary)
        reader = Reader(self._client, self._name, plan.prefix_ids, self._deadline, self._counters, size)
        effort, quick = self._effort, self._request.quick
        search = CanvasSearch(self._model, reader, plan, self._noise, effort, quick=quick)
        working = asyncio.create_task(search.run(self._deadline, self._news.set), name="canvases")
        working.add_done_callback(lambda _: self._news.set())
        try:
            while not working.done():
                await self._news.wait()
                self._news.clear()
                if self._typed != seen and not working.done():
                    if not self._go_on(search, group, earlier, seen):
                        return
                    seen = dict(self._typed)
                if self._request.drafts and (draft := self._draft(search, earlier)):
                    yield draft
            found += working.result()
        finally:
            working.cancel()
            await asyncio.wait([working])

    def _go_on(self, search: CanvasSearch, group: Group, earlier: Sequence[str], seen: dict[int, str]) -> bool:
        """Keeps the canvases that agree with what was typed since; False where none does, so that it starts again."""
        for number, text in self._typed.items():
            if text == seen.get(number):
                continue
            if number < group.first and not earlier[number].startswith(text):
                return False
            inside = group.first <= number < group.end
            if inside and not search.keep_agreeing(number - group.first, text):
                return False
        return True

    def _draft(self, search: CanvasSearch, earlier: Sequence[str]) -> Draft | None:
        shown = search.draft
        if shown is None:
            return None
        steps = shown.steps, search.most_steps
        plan: Plan = search.plan
        draft = answered.draft(self._model.vocabulary, self._request.id, steps, shown, plan, earlier, self._holes)
        holes = self._planner.request.holes if self._planner is not None else ()
        return None if any(map(brings_controls, draft.texts, holes)) else draft

    def _late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline


def _plan(planner: Planner, group: Group, earlier: Sequence[str]) -> Plan:
    """A canvas, with all that is made of it once: what a row may begin with is up to the whole vocabulary."""
    plan = planner.plan(group, earlier)
    for hole in plan.layout.holes:
        hole.may_begin(OPEN)
    return plan
