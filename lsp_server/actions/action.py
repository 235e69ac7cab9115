"""One action on one text: its kind, its holes, and how much of them to noise."""

import asyncio
import dataclasses
from dataclasses import dataclass

from inference.messages import Candidate, Snippet
from lsp_server import carve
from lsp_server.actions.kinds import ActionKind, NotDone, strength_of
from lsp_server.carve import Span
from lsp_server.documents.document import Snapshot
from lsp_server.fill import fitting
from lsp_server.fill.candidates import current_texts, without_new_holes
from lsp_server.fill.pipeline import Budget, FillOptions, fill
from lsp_server.worker import WorkerClient
from lsp_server.worker.exchange import OnDraft

_REPAIR_CANDIDATES = 6
"""Ask for more candidates to repair a statement: many do not parse, and those come last."""
_REPAIR_STRENGTHS = (0.3, 0.6, 0.9)
"""Tried while the result does not parse. With these, 28 of 29 Python statements do; with a single one, two thirds."""


@dataclass(frozen=True)
class Action:
    """An action of `kind` on the holes of a snapshot. `strength` is 0 to 1; None: the kind's default."""

    kind: ActionKind
    snapshot: Snapshot
    holes: tuple[Span, ...]
    strength: float | None = None
    instruction: str = ""
    marker: str = carve.DEFAULT_MARKER

    @property
    def title(self) -> str:
        """The activity, for a progress display."""
        match self.kind:
            case ActionKind.WRITE_BODY:
                return "writing the body"
            case ActionKind.REWORK:
                return "reworking the selection"
            case ActionKind.REPAIR:
                return "repairing the statement"
            case ActionKind.REFINE:
                return "asking the partner"
            case _:
                return "filling the hole" if len(self.holes) == 1 else f"filling {len(self.holes)} holes"

    async def filled(
        self, worker: WorkerClient, budget: Budget, on_draft: OnDraft | None, context: tuple[Snippet, ...] = ()
    ) -> Candidate:
        """The new text of each hole; adds noise while it breaks the parse. Raises NotDone, WorkerFailure."""
        if self.kind is ActionKind.REPAIR:
            budget = dataclasses.replace(budget, candidates=max(budget.candidates, _REPAIR_CANDIDATES))
        if self.kind is ActionKind.REFINE:
            budget = dataclasses.replace(budget, candidates=1)
        best: Candidate | None = None
        for strength in await self._strengths():
            replaces = strength < 1 and worker.options.partner is not None
            result = await fill(
                worker,
                self.snapshot,
                self.holes,
                budget,
                options=FillOptions(strength, self.instruction, only_whole=replaces),
                on_draft=on_draft,
                context=context,
                marker=self.marker,
            )
            usable = without_new_holes(result.candidates, current_texts(self.snapshot, self.holes), self.marker)
            found = next(usable, None)
            best = best or found
            if found is not None and not (self.kind is ActionKind.REPAIR and await self._breaks_parse(found.texts)):
                return found
            if result.late or budget.left_ms <= 0:
                break
        if best is None:
            raise NotDone(result.why_empty(budget))
        return best

    async def _strengths(self) -> tuple[float, ...]:
        """How much to noise in each attempt. By default, a repair starts with as little as possible."""
        unsaid = self.kind is ActionKind.REPAIR and self.strength is None
        if unsaid and await self._breaks_parse(current_texts(self.snapshot, self.holes)):
            return _REPAIR_STRENGTHS
        return (strength_of(self.kind, self.strength),)

    async def _breaks_parse(self, texts: tuple[str, ...]) -> bool:
        return await asyncio.to_thread(fitting.breaks_parse, self.snapshot, self.holes, texts)
