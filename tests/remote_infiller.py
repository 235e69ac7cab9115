"""A `RemoteInfiller` of the tests, and a worker that has it: `python -m tests.remote_infiller --model http://…`.

It asks a `TextServer` over real HTTP, one request for each fill. It stands in for `inference.remote.vllm`, so that what
lies between a client and such an infiller is tested without a model that takes minutes to start.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator

import httpx2

from inference.engine.errors import RequestError
from inference.messages import Candidate, Done, Draft, ErrorCode, Hole, InfillRequest, Outcome, Stats
from inference.models.family import ModelError, OnProgress
from inference.remote import address
from inference.serving import logs, startup
from inference.serving.claim import Claim
from inference.serving.startup import WorkerArguments
from inference.worker import serve_remote

Event = Draft | Candidate | Done


class TextInfiller:
    """Fills holes with what the server answers. Not `punctual`: as one that has no idea of its deadline."""

    dtype, context_tokens, note = "", 1024, ""

    def __init__(self, url: str, *, punctual: bool = True) -> None:
        at = address.parse(url)
        self.model, self.device, self._punctual = f"{at.url}/texts", at.place, punctual
        self._client = httpx2.AsyncClient(base_url=at.url, timeout=None)

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> "TextSteps":
        """One HTTP request, whose answer is for every hole."""
        if request.instruction == "refuse":
            raise RequestError("no such request")
        return TextSteps(self._client, request, deadline if self._punctual else None)

    async def close(self) -> None:
        await self._client.aclose()


class TextSteps:
    """A draft and a candidate from the server, which begin with what was typed."""

    def __init__(self, client: httpx2.AsyncClient, request: InfillRequest, deadline: float | None) -> None:
        self._client, self._request, self._deadline = client, request, deadline
        self._typed = [hole.starts_with for hole in request.segments if isinstance(hole, Hole)]
        self._events = self._run()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events

    def amend(self, hole: int, text: str) -> None:
        if hole >= len(self._typed):
            raise RequestError(f"the request has no hole {hole}")
        self._typed[hole] = text

    async def aclose(self) -> None:
        await self._events.aclose()

    async def _run(self) -> AsyncIterator[Event]:
        left_s = None if self._deadline is None else self._deadline - time.monotonic()
        try:
            async with asyncio.timeout(left_s):
                async for event in self._ask():
                    yield event
        except TimeoutError:
            yield Done(self._request.id, Outcome.DEADLINE)
        else:
            yield Done(self._request.id)

    async def _ask(self) -> AsyncIterator[Event]:
        if self._request.instruction == "bug":
            raise KeyError(self._request.segments)
        if self._request.instruction == "huge":
            yield Done(self._request.id, stats=Stats(prefix_tokens=1 << 64))
        id_, segments = self._request.id, [repr(segment) for segment in self._request.segments]
        async with self._client.stream("POST", "/texts", json={"id": id_, "segments": segments}) as response:
            if response.status_code != 200:
                raise RequestError(f"the server answers {response.status_code}; ask who runs it", ErrorCode.SERVER)
            async for line in response.aiter_lines():
                for kind, text in json.loads(line).items():
                    texts = tuple(typed + text for typed in self._typed)
                    draft = Draft(id_, 1, 2, tuple((text,) for text in texts), tuple((0.5,) for _ in texts))
                    yield draft if kind == "draft" else Candidate(id_, texts, confidence=0.9)


async def connect(arguments: WorkerArguments, on_progress: OnProgress) -> TextInfiller:
    on_progress(0.5, "asking the server")
    infiller = TextInfiller(arguments.model)
    async for _ in infiller.infill(InfillRequest("hello", (Hole(),))):
        pass
    return infiller


async def _connect(arguments: WorkerArguments, on_progress: OnProgress) -> TextInfiller:
    try:
        return await connect(arguments, on_progress)
    except httpx2.TransportError as error:
        raise ModelError(f"{arguments.model} cannot be reached: {error}; start it, or set another model") from error


if __name__ == "__main__":
    told = startup.parse(sys.argv[1:])
    claim = Claim(told.socket)
    claim.take()
    logs.set_up(told.log, foreground=told.foreground)
    sys.exit(asyncio.run(serve_remote(told, claim, _connect)))
