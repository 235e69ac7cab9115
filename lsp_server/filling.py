"""From holes to texts that fit them: carve, ask the worker, fit what comes back. Knows no LSP types.

Text outside the holes is never part of an answer, so it cannot change.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from inference.messages import ErrorCode, InfillRequest, Outcome
from lsp_server import carve, fitting
from lsp_server.document import Snapshot
from lsp_server.privacy import path_of
from lsp_server.settings import Settings
from lsp_server.worker import ClientState, Fill, WorkerClient, WorkerFailure

GRACE_S = 2.0
"""A worker that has its model and is so much later than the deadline is slow, or hangs: it is asked."""
ANSWER_S = 3.0
"""One that hangs says nothing for so long; one that is slow answers at once."""
_TICK_S = 0.5
_ids = count(1)


@dataclass(frozen=True)
class Effort:
    """How much a fill may cost."""

    candidates: int
    deadline_ms: int
    max_steps: int | None

    @classmethod
    def of(cls, settings: Settings, *, invoked: bool) -> "Effort":
        """More for what the user asked for than for what appears by itself."""
        if invoked:
            return cls(settings.candidates.invoked, settings.deadline_ms.invoked, settings.max_steps)
        return cls(settings.candidates.automatic, settings.deadline_ms.automatic, settings.max_steps)


@dataclass(frozen=True)
class Filled:
    """Answers, best first, each a text for every span; a span for which one has nothing of use keeps the text it has.

    `late` says that the deadline came first, so that with more time there might have been more.
    """

    answers: list[tuple[str, ...]]
    late: bool


async def fill(worker: WorkerClient, snapshot: Snapshot, spans: Sequence[carve.Span], effort: Effort) -> Filled:
    """Fill all `spans` together. Raises WorkerFailure. Cancelling this cancels the request in the worker."""
    request = InfillRequest(
        id=str(next(_ids)),
        segments=carve.segments(snapshot.text, spans),
        language=snapshot.language_id,
        path=path_of(snapshot.uri).rpartition("/")[2],
        candidates=effort.candidates,
        deadline_ms=effort.deadline_ms,
        max_steps=effort.max_steps,
    )
    answer = await _answer(worker, request, effort)
    answers = [candidate.texts for candidate in fitting.fitted(snapshot, spans, answer.candidates)]
    return Filled(answers, late=answer.done.outcome is Outcome.DEADLINE)


async def _answer(worker: WorkerClient, request: InfillRequest, effort: Effort) -> Fill:
    """What the worker says, however late, as long as it is alive. Time does not count while it loads its model."""
    asked = asyncio.create_task(worker.infill(request))
    left_s = effort.deadline_ms / 1000 + GRACE_S
    try:
        while not (await asyncio.wait({asked}, timeout=_TICK_S))[0]:
            left_s -= _TICK_S * (worker.state in (ClientState.READY, ClientState.BUSY))
            if left_s <= 0:
                await _require_life(worker)
                left_s = GRACE_S
        return asked.result()
    finally:
        asked.cancel()


async def _require_life(worker: WorkerClient) -> None:
    """Raises WorkerFailure when the worker no longer says even how it is."""
    if not await worker.answers(ANSWER_S):
        raise WorkerFailure(ErrorCode.STOPPED, "The worker does not answer; `infill-ls doctor` tells more")
