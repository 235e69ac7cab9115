"""Fills holes by asking one vLLM server; its requests run side by side."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable

from inference.engine.canvas import prompt
from inference.messages import InfillRequest
from inference.models.family import ModelError
from inference.remote.vllm import files, server
from inference.remote.vllm.canvas_search import Model
from inference.remote.vllm.client import Client, ServerError
from inference.remote.vllm.infilling import RemoteEvent, RemoteInfilling
from inference.remote.vllm.server import Served
from inference.serving.startup import WorkerArguments

log = logging.getLogger(__name__)
MEET_AGAIN_S = 30.0
"""After a refusal the server is met again, no sooner than so long after the last time."""


class VllmInfiller:
    """A served model, as the worker knows it. See `serving.infiller.RemoteInfiller`.

    A server that refuses what it would have taken may be another one by now, behind the same URL: it is asked anew.
    """

    dtype = ""
    """The server does not say."""
    note = ""

    def __init__(self, client: Client, place: str, arguments: WorkerArguments, served: Served, model: Model) -> None:
        """`place` is the server's host and port."""
        self._client, self._arguments, self.device = client, arguments, place
        self._meeting: asyncio.Task[None] | None = None
        self._met_again_s = -MEET_AGAIN_S
        self._know(served, model)

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> "Watched":
        """The work on a request. `deadline` is in `time.monotonic()` seconds. Raises RequestError."""
        steps = RemoteInfilling(self._client, self._served.name, self._model, request, deadline)
        return Watched(steps, self._refused)

    async def close(self) -> None:
        """Closes the connections."""
        if self._meeting is not None:
            self._meeting.cancel()
            await asyncio.wait([self._meeting])
        await self._client.close()

    def _know(self, served: Served, model: Model) -> None:
        self._served, self._model = served, model
        self.model = server.shown(served.name)
        self.context_tokens = prompt.context_tokens(model.vocabulary, model.properties)

    def _refused(self) -> None:
        now_s = time.monotonic()
        if self._met_again_s + MEET_AGAIN_S <= now_s:
            self._met_again_s = now_s
            self._meeting = asyncio.create_task(self._meet_again(), name="meet")

    async def _meet_again(self) -> None:
        try:
            async with asyncio.timeout(MEET_AGAIN_S):
                served = await server.meet(self._client, self._arguments.server_model)
            if served != self._served:
                tokenizer, url = self._arguments.server_tokenizer, self._client.url
                self._know(served, await asyncio.to_thread(files.load, served, tokenizer, url))
                log.info("another server answers at %s: it serves %s", url, self.model)
        except (ModelError, TimeoutError) as error:
            log.warning("the server that refused a request does not say what it serves: %s", error)


class Watched:
    """The work on one request, as `RemoteInfilling`; `refused` is called where the server does not take it."""

    def __init__(self, steps: RemoteInfilling, refused: Callable[[], None]) -> None:
        self._steps, self._refused = steps, refused
        self._events = self._work()

    def __aiter__(self) -> AsyncIterator[RemoteEvent]:
        """The events as they come."""
        return self._events

    def amend(self, hole: int, text: str) -> None:
        """Pin `text`, all that now stands at the start of a hole. Raises RequestError where there is no such hole."""
        self._steps.amend(hole, text)

    async def aclose(self) -> None:
        """Abort what still runs."""
        await self._events.aclose()
        await self._steps.aclose()

    async def _work(self) -> AsyncGenerator[RemoteEvent, None]:
        try:
            async for event in self._steps:
                yield event
        except ServerError as error:
            if error.status in (400, 404):
                self._refused()
            raise
