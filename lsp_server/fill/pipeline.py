"""From holes to texts that fit them: carve, ask the worker, fit what comes back. Knows no LSP types.

Text outside the holes is never part of an answer, so it cannot change.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from msgspec.structs import replace

from inference.messages import Candidate, Hole, InfillRequest, Outcome, Snippet, Text
from lsp_server import carve
from lsp_server.documents.document import Snapshot
from lsp_server.documents.uris import path_of
from lsp_server.fill.candidates import fitted, standing
from lsp_server.settings.schema import Settings
from lsp_server.worker import WorkerClient, alive
from lsp_server.worker.link import OnDraft

FEW_HOLES = 8
"""So many are fitted in no time."""
_ids = count(1)


@dataclass(frozen=True)
class Budget:
    """How much a fill may cost."""

    candidates: int
    deadline_ms: int
    max_steps: int | None

    @classmethod
    def of(cls, settings: Settings, *, invoked: bool) -> "Budget":
        """More for what the user asked for than for what appears by itself."""
        if invoked:
            return cls(settings.candidates.invoked, settings.deadline_ms.invoked, settings.max_steps)
        return cls(settings.candidates.automatic, settings.deadline_ms.automatic, settings.max_steps)


@dataclass(frozen=True)
class FillOptions:
    """How much of what stands in the holes is noised (1: all of it, they are filled anew), and what is wanted in words.

    A checkpoint that takes no instructions ignores those.
    """

    strength: float = 1.0
    instruction: str = ""


FROM_SCRATCH = FillOptions()


@dataclass(frozen=True)
class FillResult:
    """Answers, best first, each a text for every span; a span for which one has nothing of use keeps the text it has.

    `late` says that the deadline came first, so that with more time there might have been more; `unchanged` that the
    model gave back what stands there already, which is no answer. `confidences` (0 to 1) says how sure it is of each.
    """

    answers: list[tuple[str, ...]]
    late: bool
    unchanged: bool = False
    confidences: tuple[float, ...] = ()


async def fill(
    worker: WorkerClient,
    snapshot: Snapshot,
    spans: Sequence[carve.Span],
    effort: Budget,
    *,
    wish: FillOptions = FROM_SCRATCH,
    on_draft: OnDraft | None = None,
    request_id: str = "",
    context: tuple[Snippet, ...] = (),
    marker: str = "",
) -> FillResult:
    """Fill all `spans` together. Raises WorkerFailure. Cancelling this cancels the request in the worker.

    `request_id` is for `WorkerClient.amend`, and one that nobody else uses. `context` is text of other files. The model
    is not shown a `marker` outside the holes.
    """
    parts = carve.segments(snapshot.text, spans, snapshot.before, snapshot.after, marker=marker)
    request = InfillRequest(
        id=request_id or str(next(_ids)),
        segments=_with_strength(parts, wish.strength),
        language=snapshot.language_id,
        path=path_of(snapshot.uri).rpartition("/")[2],
        candidates=effort.candidates,
        deadline_ms=effort.deadline_ms,
        max_steps=effort.max_steps,
        drafts=on_draft is not None,
        instruction=wish.instruction,
        context=tuple(replace(snippet, text=carve.unmarked(snippet.text, marker)) for snippet in context),
    )
    answer = await alive.answer(worker, request, on_draft)
    fits = await _fitted(snapshot, spans, answer.candidates)
    now = standing(snapshot, spans)
    return FillResult(
        [candidate.texts for candidate in fits],
        late=answer.done.outcome is Outcome.DEADLINE,
        unchanged=any(candidate.texts == now for candidate in answer.candidates),
        confidences=tuple(candidate.confidence for candidate in fits),
    )


async def _fitted(snapshot: Snapshot, spans: Sequence[carve.Span], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Many holes take most of a second to fit, in which typing would wait: those are done in a thread."""
    if len(spans) <= FEW_HOLES:
        return fitted(snapshot, spans, candidates)
    return await asyncio.to_thread(fitted, snapshot, spans, candidates)


def _with_strength(segments: tuple[Text | Hole, ...], strength: float) -> tuple[Text | Hole, ...]:
    return tuple(replace(part, strength=strength) if isinstance(part, Hole) else part for part in segments)
