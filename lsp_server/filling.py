"""From holes to texts that fit them: carve, ask the worker, fit what comes back. Knows no LSP types.

Text outside the holes is never part of an answer, so it cannot change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from inference.messages import InfillRequest, Outcome
from lsp_server import carve, fitting
from lsp_server.document import Snapshot
from lsp_server.privacy import path_of
from lsp_server.settings import Settings
from lsp_server.worker import WorkerClient, alive

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
    answer = await alive.answer(worker, request)
    answers = [candidate.texts for candidate in fitting.fitted(snapshot, spans, answer.candidates)]
    return Filled(answers, late=answer.done.outcome is Outcome.DEADLINE)
