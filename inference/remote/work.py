"""The common part of the work on a request for any server: events, amendments, an end, a deadline."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from inference.engine.canvas.segments import text_and_holes
from inference.engine.errors import RequestError
from inference.engine.work import Counters
from inference.messages import Candidate, Done, Draft, InfillRequest, Outcome
from inference.remote.pause import ServerError

RemoteEvent = Draft | Candidate | Done


class RemoteWork(ABC):
    """The work on a request (`RemoteSteps`): drafts if requested, candidates, best first, then Done."""

    def __init__(self, request: InfillRequest, deadline: float | None, on_refused: Callable[[], None]) -> None:
        """`deadline`: seconds of `time.monotonic()`. `on_refused` hears of a refusal. Raises RequestError."""
        self._request, self._deadline, self._on_refused = request, deadline, on_refused
        self._parts = text_and_holes(request)
        self._counters = Counters()
        self._news = asyncio.Event()
        """Set when there may be something to report or redo."""
        self._events = self._watched()

    def __aiter__(self) -> AsyncIterator[RemoteEvent]:
        return self._events

    def amend(self, hole: int, text: str) -> None:
        if not 0 <= hole < len(self._parts.holes):
            raise RequestError(f"the request has no hole {hole}")
        self._pin(hole, text)
        self._news.set()

    async def aclose(self) -> None:
        await self._events.aclose()

    async def _watched(self) -> AsyncGenerator[RemoteEvent, None]:
        try:
            async with aclosing(self._work()) as events:
                async for event in events:
                    yield event
        except ServerError as error:
            if error.status in (400, 404):
                self._on_refused()
            raise

    @abstractmethod
    def _work(self) -> AsyncGenerator[RemoteEvent, None]:
        """All events, Done last."""

    @abstractmethod
    def _pin(self, hole: int, text: str) -> None:
        """`text` is now at the start of a hole of the request."""

    def _done(self) -> Done:
        outcome = Outcome.DEADLINE if self._late() else Outcome.COMPLETE
        return Done(self._request.id, outcome, self._counters.stats())

    def _late(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline
