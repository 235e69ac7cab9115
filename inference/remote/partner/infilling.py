"""Works on one request: writes candidates side by side, and pins the user's typing in each."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable

from inference.engine.canvas import answered
from inference.engine.middle import question
from inference.engine.middle.question import Windows
from inference.messages import MAX_CANDIDATES, Candidate, Draft, InfillRequest
from inference.remote.client import Client
from inference.remote.meeting import ServedInfiller
from inference.remote.partner import kinds
from inference.remote.partner.chain import Chain, SharedQuestion
from inference.remote.partner.interfaces import Interface
from inference.remote.partner.kinds import ServedPartner
from inference.remote.work import RemoteEvent, RemoteWork
from inference.serving.startup import WorkerArguments

_SIDE_BY_SIDE = 4
"""How many candidates of one request to write concurrently."""
_DRAFT_S = 0.05
"""The least time between two drafts."""


class PartnerInfilling(RemoteWork):
    """The work on one request, with concurrent candidates."""

    def __init__(
        self,
        client: Client,
        interface: Interface,
        windows: Windows,
        on_fit: Callable[[Windows], None],
        request: InfillRequest,
        deadline: float | None,
        on_refused: Callable[[], None],
    ) -> None:
        """As `RemoteWork`. `on_fit` receives the windows that filled a hole."""
        super().__init__(request, deadline, on_refused)
        self._typed: dict[int, str] = {}
        self._asking = SharedQuestion(
            client, interface, windows, on_fit, request, self._parts, deadline, self._typed, self._counters
        )
        self._places = asyncio.Semaphore(_SIDE_BY_SIDE)
        count = 1 if request.quick else min(max(1, request.candidates), MAX_CANDIDATES)
        self._chains = [Chain(self._asking, number, self._news.set) for number in range(count)]
        self._running: dict[Chain, asyncio.Task[None]] = {}
        self._drawn = 0.0

    def _pin(self, hole: int, text: str) -> None:
        self._typed[hole] = text
        for chain in self._chains:
            chain.amend(hole, text)

    async def _work(self) -> AsyncGenerator[RemoteEvent, None]:
        try:
            for chain in self._chains:
                self._start(chain)
            while not self._is_over():
                await self._news.wait()
                self._news.clear()
                if self._request.drafts and (draft := self._draft()):
                    yield draft
            self._raise_if_nothing()
            for candidate in self._candidates():
                yield candidate
            yield self._done()
        finally:
            for task in self._running.values():
                task.cancel()
            if self._running:
                await asyncio.wait(self._running.values())

    def _start(self, chain: Chain) -> None:
        task = self._running[chain] = asyncio.create_task(self._write(chain), name="candidate")
        task.add_done_callback(lambda _: self._news.set())

    async def _write(self, chain: Chain) -> None:
        async with self._places:
            await chain.run()

    def _is_over(self) -> bool:
        """Whether all candidates are written. One that was, but disagrees with later typing, continues."""
        for chain, task in self._running.items():
            if task.done() and not chain.is_complete and not task.exception() and not self._late():
                self._start(chain)
        return all(task.done() for task in self._running.values())

    def _raise_if_nothing(self) -> None:
        """Raises the first error if there is no candidate; after the deadline errors no longer matter."""
        errors = [error for task in self._running.values() if (error := task.exception()) is not None]
        if errors and len(errors) == len(self._chains):
            raise errors[0]

    def _candidates(self) -> list[Candidate]:
        """The first one is the likeliest; each text once."""
        found: dict[tuple[str, ...], Candidate] = {}
        for chain in self._chains:
            candidate = None if self._running[chain].exception() else chain.candidate()
            if candidate and not any(map(answered.has_halves, candidate.texts, self._parts.holes)):
                found.setdefault(candidate.texts, candidate)
        first, *others = found.values() or [None]
        ranked = sorted((each for each in others if each), key=lambda each: -each.score)
        return sorted(([first] if first else []) + ranked, key=lambda one: (not one.complete, not all(one.texts)))

    def _draft(self) -> Draft | None:
        """The first candidate's current state; None if nothing is new."""
        now, fills = time.monotonic(), self._chains[0].shown()
        if now < self._drawn + _DRAFT_S or not any(fill.text for fill in fills):
            return None
        self._drawn = now
        rest: list[tuple[str, ...]] = [()] * (len(self._parts.holes) - len(fills))
        most = sum(map(question.room, self._parts.holes))
        return Draft(
            self._request.id,
            min(most, sum(fill.tokens for fill in fills)),
            most,
            (*((fill.text,) for fill in fills), *rest),
            (*((_mean(fill.sure),) for fill in fills), *(() for _ in rest)),
        )


def _mean(sure: tuple[float, ...]) -> float:
    return sum(sure) / len(sure) if sure else 1.0


log = logging.getLogger(__name__)


class PartnerInfiller(ServedInfiller):
    """An autoregressive model on a server, as the worker knows it."""

    def __init__(self, client: Client, place: str, arguments: WorkerArguments, served: ServedPartner) -> None:
        """`place` is the server's host and port."""
        super().__init__(client, place, arguments)
        self._know(served)

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> PartnerInfilling:
        interface, windows = self._served.interface, self._windows
        return PartnerInfilling(self._client, interface, windows, self._learn, request, deadline, self._refused)

    def _know(self, served: ServedPartner) -> None:
        self._served, self._windows = served, Windows(served.context_tokens)
        self.model, interface = served.shown, served.interface
        self.partner, self.sees_drafts = interface.kind, interface.sees_drafts
        self.context_tokens = interface.context_tokens

    def _learn(self, windows: Windows) -> None:
        """The server accepted these after refusing larger ones, so use them from now on."""
        if windows.context_tokens == self._windows.context_tokens and windows.share < self._windows.share:
            self._windows = windows

    async def _meet_again(self) -> None:
        served = await kinds.meet(self._client, self._arguments.server_model, self._arguments.partner or "auto")
        if (served.name, served.interface.kind) != (self._served.name, self._served.interface.kind):
            log.info("another server answers at %s: it serves %s", self._client.url, served.shown)
        self._know(served)
