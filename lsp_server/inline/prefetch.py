"""Computes ahead what follows an accepted suggestion, or the rest of one accepted in part. Gives way to all else."""

from dataclasses import dataclass, replace

from lsp_server import carve
from lsp_server.documents.document import Snapshot
from lsp_server.fill.pipeline import Budget
from lsp_server.inline.computation import Computation
from lsp_server.inline.request import anchor_at, hole_for
from lsp_server.inline.suggestion import Cursor, Suggestion


@dataclass(frozen=True)
class Accepted:
    """The user accepted `text`, the start of `suggestion` or all of it. Without a `budget`, prefetches nothing."""

    suggestion: Suggestion
    text: str
    budget: Budget | None
    marker: str

    @property
    def is_whole(self) -> bool:
        """Whether all of the suggestion was accepted."""
        return self.text == self.suggestion.text

    def prefetch(self, snapshot: Snapshot, budget: Budget) -> Computation | None:
        """The computation for what follows; `snapshot` is the document including the accepted text."""
        anchor, marker = self.suggestion.anchor, self.marker
        cursor = anchor.start + len(self.text)
        hole: carve.Span | None
        if self.is_whole:
            hole = hole_for(snapshot, Cursor(cursor), marker)
        else:
            hole = replace(self.suggestion.hole, start=anchor.start, end=anchor.end, starts_with=self.text)
        if hole is None:
            return None
        after = anchor_at(snapshot, hole, cursor)
        return Computation(snapshot, hole, after, budget, invoked=False, marker=marker, is_prefetch=True)
