"""Works on one request: plans its canvases, has a server fill them one after another, and reports the results."""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Sequence

from inference.engine.canvas import answered, prompt
from inference.engine.canvas.answered import Canvases, RankedFill
from inference.engine.canvas.layout import OPEN
from inference.engine.canvas.plan import Group, Plan, Planner
from inference.engine.search.length import Effort
from inference.messages import Request
from inference.remote import served
from inference.remote.served import RemoteEvent, RemoteWork, ServedInfiller
from inference.remote.vllm import checkpoint
from inference.remote.vllm.canvas import CanvasReader, CanvasSearch, Model
from inference.remote.vllm.checkpoint import CanvasModel

log = logging.getLogger(__name__)


class CanvasInfilling(RemoteWork):
    """The work on one request, canvas after canvas. Canvases come all at once, so there are no drafts."""

    def __init__(self, server: ServedInfiller, model: Model, request: Request, deadline: float | None) -> None:
        """As `RemoteWork`."""
        super().__init__(server, request, deadline)
        self._model = model
        self._noise = random.Random(self.request.seed)  # noqa: S311 - noise, not a secret
        self._effort = Effort.of(self.request, model.properties)
        self._canvases: Canvases | None = None
        self._typed: dict[int, str] = {}
        """The text typed before the canvases were planned, by the number of the hole."""

    def _pin(self, hole: int, text: str) -> None:
        if self._canvases is None:
            self._typed[hole] = text
        else:
            self._canvases.pin(hole, text)

    async def _work(self) -> AsyncGenerator[RemoteEvent, None]:
        """Plans in threads, because the text may be long."""
        planner = await asyncio.to_thread(Planner, self._model.vocabulary, self._model.properties, self.request)
        for hole, text in self._typed.items():
            planner.pin_start(hole, text)
        canvases = self._canvases = Canvases(planner)
        while not canvases.are_all and not self._late():
            group, earlier = await asyncio.to_thread(canvases.begin)
            plan = await asyncio.to_thread(_plan, planner, group, earlier)
            found = await self._canvas(canvases, plan, earlier)
            holes = planner.request.holes[group.first : group.end]
            found = [each for each in found if answered.agrees(each.texts, holes)]
            if not found and not canvases.is_amended:  # asking again would bring the same
                break
            canvases.add(group, found)
        most = self._effort.candidates
        for candidate in canvases.candidates(self.request.id, most, self._counters.ms(), complete=not self._late()):
            yield candidate
        yield self._done()

    async def _canvas(self, canvases: Canvases, plan: Plan, earlier: Sequence[str]) -> list[RankedFill]:
        """The answers for one canvas behind the `earlier` fills, best first; none if other text was typed meanwhile."""
        self._counters.canvases += 1
        reader = CanvasReader(
            self._server.client, self._model.name, plan.prefix_ids, deadline=self._deadline, counters=self._counters
        )
        search = CanvasSearch(self._model, reader, plan, noise=self._noise, effort=self._effort)
        searching = asyncio.create_task(search.run(self._deadline, quick=self.request.quick), name="canvases")
        searching.add_done_callback(lambda _: self._news.set())
        try:
            while not searching.done():
                await self._news.wait()
                self._news.clear()
                is_amended = canvases.has_news and not searching.done()
                if is_amended and not canvases.go_on(plan.group, earlier, lambda *_: False):
                    return []
            return searching.result()
        finally:
            searching.cancel()
            await asyncio.wait([searching])


def _plan(planner: Planner, group: Group, earlier: Sequence[str]) -> Plan:
    """A canvas, with everything computed once for it: the possible starts of a row involve the whole vocabulary."""
    plan = planner.plan(group, earlier)
    for hole in plan.layout.holes:
        hole.may_begin(OPEN)
    return plan


class VllmInfiller(ServedInfiller):
    """A model that a vLLM serves, as the worker knows it."""

    _found: CanvasModel | None = None

    async def look(self) -> None:
        """Finds out the server's model, and reads this machine's tokenizer for it."""
        found = await checkpoint.look(self.client, self._arguments.server_model)
        if found == self._found:
            return
        tokenizer = self._arguments.server_tokenizer
        self._model = await asyncio.to_thread(checkpoint.load, found, tokenizer, self.client.url)
        if self._found is not None:
            log.info("another server answers at %s: it serves %s", self.client.url, served.shown(found.name))
        self._found = found
        self.model = served.shown(found.name)
        self.context_tokens = prompt.context_tokens(self._model.vocabulary, self._model.properties)

    def infill(self, request: Request, *, deadline: float | None = None) -> CanvasInfilling:
        return CanvasInfilling(self, self._model, request, deadline)
