"""One action on one text: what is to be done, to which holes, how much of them, in which words."""

from dataclasses import dataclass, replace

from inference.messages import Snippet
from lsp_server import carve
from lsp_server.actions.outcome import NOTHING_FITS, NOTHING_TO_CHANGE, TOO_LATE, NotDone
from lsp_server.actions.tasks import Task
from lsp_server.carve import Span
from lsp_server.document import Snapshot
from lsp_server.filling import ANEW, Effort, Wish, fill
from lsp_server.worker import WorkerClient
from lsp_server.worker.link import OnDraft

_REPAIR_CANDIDATES = 6
"""A repair chooses among more: many attempts do not parse, and those come last."""


@dataclass(frozen=True)
class Job:
    """A task on the holes of a snapshot."""

    task: Task
    snapshot: Snapshot
    holes: tuple[Span, ...]
    wish: Wish = ANEW
    marker: str = carve.DEFAULT_MARKER

    @property
    def title(self) -> str:
        """What is being done, for a progress display."""
        match self.task:
            case Task.WRITE_BODY:
                return "writing the body"
            case Task.REWORK:
                return "reworking the selection"
            case Task.REPAIR:
                return "repairing the statement"
            case _:
                return "filling the hole" if len(self.holes) == 1 else f"filling {len(self.holes)} holes"

    async def texts(
        self, worker: WorkerClient, effort: Effort, on_draft: OnDraft | None, context: tuple[Snippet, ...] = ()
    ) -> tuple[str, ...]:
        """What is to stand in the holes. Raises NotDone, WorkerFailure. Cancelling this cancels it in the worker."""
        if self.task is Task.REPAIR:
            effort = replace(effort, candidates=max(effort.candidates, _REPAIR_CANDIDATES))
        filled = await fill(
            worker, self.snapshot, self.holes, effort, wish=self.wish, on_draft=on_draft, context=context
        )
        good = [texts for texts in filled.answers if not self._adds_markers(texts)]
        if good:
            return good[0]
        if filled.late:
            raise NotDone(TOO_LATE.format(effort.deadline_ms))
        raise NotDone(NOTHING_TO_CHANGE if filled.unchanged else NOTHING_FITS)

    def _adds_markers(self, texts: tuple[str, ...]) -> bool:
        """Whether an answer only has new holes where there was text: models copy the marks of other holes."""
        text = self.snapshot.text
        return any(
            fill.count(self.marker) > text.count(self.marker, span.start, span.end)
            for span, fill in zip(self.holes, texts, strict=True)
        )
