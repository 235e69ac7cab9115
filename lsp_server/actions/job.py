"""One action on one text: what is to be done, to which holes, how hard, in which words."""

from collections.abc import Callable
from dataclasses import dataclass

from inference.messages import Draft
from lsp_server.actions.outcome import NOTHING_FITS, NOTHING_TO_CHANGE, NotDone
from lsp_server.actions.tasks import Task
from lsp_server.carve import Span
from lsp_server.document import Snapshot
from lsp_server.filling import Effort, fill
from lsp_server.worker import WorkerClient

_TOO_LATE = "no answer within {} ms; try again, or raise deadlineMs.invoked"
_REPAIR_CANDIDATES = 6
"""A repair chooses among more: many attempts do not parse."""


@dataclass(frozen=True)
class Job:
    """`strength` 1 fills `holes` anew, less reworks what stands in them. `instruction` may be empty."""

    task: Task
    snapshot: Snapshot
    holes: tuple[Span, ...]
    strength: float = 1.0
    instruction: str = ""

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
        self, worker: WorkerClient, effort: Effort, on_draft: Callable[[Draft], None] | None
    ) -> tuple[str, ...]:
        """What is to stand in the holes. Raises NotDone, WorkerFailure. Cancelling this cancels it in the worker."""
        filled = await fill(worker, self.snapshot, self.holes, effort)
        if filled.answers:
            return filled.answers[0]
        if filled.late:
            raise NotDone(_TOO_LATE.format(effort.deadline_ms))
        raise NotDone(NOTHING_FITS if self.strength == 1 else NOTHING_TO_CHANGE)
