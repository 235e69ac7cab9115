"""The fill pipeline: from the holes of a snapshot to texts that fit them. Knows no LSP types.

Inline completion, completion, code actions, commands and `infill-ls fill` all call `fill`. It turns the holes into a
request, asks the worker and fits its candidates. Text outside the holes is no part of an answer, so it cannot change.
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
from lsp_server.fill.candidates import count_unfilled, current_texts, fitted
from lsp_server.settings.schema import Settings
from lsp_server.worker import WorkerClient, WorkerOptions, alive
from lsp_server.worker.link import OnDraft

FEW_HOLES = 8
"""Fitting this many takes a few milliseconds at most."""
TOO_LATE = "no answer within {} ms; try again, or raise deadlineMs.invoked"
NOTHING_TO_CHANGE = "nothing to change: the model would write what stands there already"
NOTHING_FITS = "the model found nothing that fits here"
LEFT = "{} of {} holes are left as they are: nothing that fits was found for them, or there was no time"
_ids = count(1)


@dataclass(frozen=True)
class Budget:
    """How much a fill may cost. `max_steps` None: as many as the checkpoint says."""

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
    """How much of the holes' current text is noised (1: all of it), and in words what the fills should be.

    A checkpoint that takes no instructions ignores them. `seed` None: unseeded.
    """

    strength: float = 1.0
    instruction: str = ""
    seed: int | None = None


FROM_SCRATCH = FillOptions()


@dataclass(frozen=True)
class FillResult:
    """The candidates, best first, each with a text for every span that can be put in as it is.

    A span for which a candidate has nothing of use keeps its current text. `late`: the deadline came first, and with
    more time there might have been more. `unchanged`: the model gave back the current text, which is no answer.
    """

    candidates: Sequence[Candidate]
    late: bool
    unchanged: bool = False

    @property
    def answers(self) -> list[tuple[str, ...]]:
        """The texts of each candidate."""
        return [candidate.texts for candidate in self.candidates]

    @property
    def confidences(self) -> tuple[float, ...]:
        """How sure the model is of each candidate, 0 to 1."""
        return tuple(candidate.confidence for candidate in self.candidates)

    def why_empty(self, budget: Budget) -> str:
        """Why there is no candidate, in words for the user."""
        if self.late:
            return TOO_LATE.format(budget.deadline_ms)
        return NOTHING_TO_CHANGE if self.unchanged else NOTHING_FITS


async def fill(
    worker: WorkerClient,
    snapshot: Snapshot,
    spans: Sequence[carve.Span],
    budget: Budget,
    *,
    options: FillOptions = FROM_SCRATCH,
    on_draft: OnDraft | None = None,
    request_id: str = "",
    context: tuple[Snippet, ...] = (),
    marker: str = "",
) -> FillResult:
    """Fill all `spans` together. Raises WorkerFailure. Cancelling this cancels the request in the worker.

    `request_id` is for `WorkerClient.amend`; it must be unique. `context` is text of other files. The model is not
    shown a `marker` outside the holes.
    """
    request = request_for(snapshot, spans, budget, options, context, marker)
    request = replace(request, id=request_id or str(next(_ids)), drafts=on_draft is not None)
    answer = await alive.answer(worker, request, on_draft)
    current = current_texts(snapshot, spans)
    return FillResult(
        await _fitted(snapshot, spans, answer.candidates),
        late=answer.done.outcome is Outcome.DEADLINE,
        unchanged=any(candidate.texts == current for candidate in answer.candidates),
    )


def worker_options(settings: Settings) -> WorkerOptions:
    """The worker that the settings name."""
    return WorkerOptions(
        model=settings.model,
        device=settings.device,
        dtype=settings.dtype,
        idle_s=settings.idle_seconds,
        allow_download=settings.allow_download,
    )


def request_for(
    snapshot: Snapshot,
    spans: Sequence[carve.Span],
    budget: Budget,
    options: FillOptions = FROM_SCRATCH,
    context: Sequence[Snippet] = (),
    marker: str = "",
) -> InfillRequest:
    """What the worker is asked, still without an id. Of the file's path it is told the name alone."""
    segments = carve.segments(snapshot.text, spans, snapshot.before, snapshot.after, marker=marker)
    return InfillRequest(
        id="",
        segments=_with_strength(segments, options.strength),
        language=snapshot.language_id,
        path=path_of(snapshot.uri).rpartition("/")[2],
        context=tuple(replace(snippet, text=carve.unmarked(snippet.text, marker)) for snippet in context),
        candidates=budget.candidates,
        deadline_ms=budget.deadline_ms,
        max_steps=budget.max_steps,
        instruction=options.instruction,
        seed=options.seed,
    )


def left_as_they_are(texts: Sequence[str], current: Sequence[str]) -> str | None:
    """In words for the user, how many holes an answer leaves as they are; None where it fills them all."""
    left = count_unfilled(texts, current)
    return LEFT.format(left, len(current)) if left else None


async def _fitted(snapshot: Snapshot, spans: Sequence[carve.Span], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Fit many holes in a thread: they take most of a second, and typing must not wait for that."""
    if len(spans) <= FEW_HOLES:
        return fitted(snapshot, spans, candidates)
    return await asyncio.to_thread(fitted, snapshot, spans, candidates)


def _with_strength(segments: tuple[Text | Hole, ...], strength: float) -> tuple[Text | Hole, ...]:
    return tuple(replace(part, strength=strength) if isinstance(part, Hole) else part for part in segments)
