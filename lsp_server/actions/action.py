"""One action on one text: what is to be done, to which holes, how much of them, in which words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference.messages import Snippet
from lsp_server import carve
from lsp_server.actions.failures import NOTHING_FITS, NOTHING_TO_CHANGE, TOO_LATE, NotDone
from lsp_server.actions.kinds import DEFAULT_STRENGTH, ActionKind
from lsp_server.carve import Span
from lsp_server.documents.document import Snapshot
from lsp_server.fill import fitting
from lsp_server.fill.candidates import standing
from lsp_server.fill.pipeline import FROM_SCRATCH, Budget, FillOptions, fill
from lsp_server.worker import WorkerClient
from lsp_server.worker.link import OnDraft

_REPAIR_CANDIDATES = 6
"""A repair chooses among more: many attempts do not parse, and those come last."""
_REPAIR_STRENGTHS = (0.3, 0.6, 0.9)
"""The next one is tried while the result does not parse.

Of 29 Python statements that lack one character, the embedded checkpoint makes 28 parse so; with any one strength alone
it was about two thirds.
"""


@dataclass(frozen=True)
class Action:
    """A task on the holes of a snapshot."""

    task: ActionKind
    snapshot: Snapshot
    holes: tuple[Span, ...]
    wish: FillOptions = FROM_SCRATCH
    marker: str = carve.DEFAULT_MARKER

    @property
    def title(self) -> str:
        """What is being done, for a progress display."""
        match self.task:
            case ActionKind.WRITE_BODY:
                return "writing the body"
            case ActionKind.REWORK:
                return "reworking the selection"
            case ActionKind.REPAIR:
                return "repairing the statement"
            case _:
                return "filling the hole" if len(self.holes) == 1 else f"filling {len(self.holes)} holes"

    async def texts(
        self, worker: WorkerClient, effort: Budget, on_draft: OnDraft | None, context: tuple[Snippet, ...] = ()
    ) -> tuple[str, ...]:
        """What is to stand in the holes. Raises NotDone, WorkerFailure. Cancelling this cancels it in the worker."""
        if self.task is ActionKind.REPAIR:
            effort = replace(effort, candidates=max(effort.candidates, _REPAIR_CANDIDATES))
        best: tuple[str, ...] | None = None
        for strength in self._strengths():
            wish = replace(self.wish, strength=strength)
            filled = await fill(
                worker,
                self.snapshot,
                self.holes,
                effort,
                wish=wish,
                on_draft=on_draft,
                context=context,
                marker=self.marker,
            )
            found = self._best(filled.answers)
            best = best or found
            if found is not None and not (self.task is ActionKind.REPAIR and self._is_broken(found)):
                return found
            if filled.late:
                break
        if best is not None:
            return best
        if filled.late:
            raise NotDone(TOO_LATE.format(effort.deadline_ms))
        raise NotDone(NOTHING_TO_CHANGE if filled.unchanged else NOTHING_FITS)

    def _strengths(self) -> tuple[float, ...]:
        """How much to noise: what breaks the parse is repaired with as little as does it, as far as nobody said."""
        unsaid = self.task is ActionKind.REPAIR and self.wish.strength == DEFAULT_STRENGTH[ActionKind.REPAIR]
        if unsaid and self._is_broken(standing(self.snapshot, self.holes)):
            return _REPAIR_STRENGTHS
        return (self.wish.strength,)

    def _is_broken(self, texts: tuple[str, ...]) -> bool:
        return fitting.breaks_parse(self.snapshot, self.holes, texts)

    def _best(self, answers: Sequence[tuple[str, ...]]) -> tuple[str, ...] | None:
        """The first answer that changes something once holes are left as they are where a new mark would stand."""
        now = standing(self.snapshot, self.holes)
        for texts in answers:
            kept = tuple(
                old if text.count(self.marker) > old.count(self.marker) else text
                for text, old in zip(texts, now, strict=True)
            )
            if kept != now:
                return kept
        return None
