"""One computation of suggestions, which follows what the user types meanwhile."""

import asyncio
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count

from inference.ending import slice_pieces
from inference.messages import Draft
from lsp_server import holes
from lsp_server.documents.change import TextChange
from lsp_server.documents.document import Snapshot
from lsp_server.fill.drafts import DraftReader, HoleDraft
from lsp_server.fill.pipeline import FillResult
from lsp_server.inline.anchor import Anchor, Cursor
from lsp_server.inline.request import InlineRequest
from lsp_server.inline.suggestion import Suggestion
from lsp_server.syntax.lines import LINE_END

_computation_numbers = count(1)
_PAIRS = ("()", "[]", "{}", '""', "''", "``")
"""Pairs that an editor inserts together when it closes brackets and quotes: the cursor ends up between them."""


@dataclass(eq=False)
class FillComputation:
    """The fill of `hole` of `snapshot` for the request that began it, and what is typed meanwhile."""

    snapshot: Snapshot
    hole: holes.HoleSpan
    request: InlineRequest
    is_prefetch: bool = False
    """Whether it started ahead of any request."""
    id: str = field(default_factory=lambda: f"inline-{next(_computation_numbers)}")
    anchor: Anchor = field(init=False)
    """The hole's place in the current text."""
    typed: str = field(init=False)
    """The text in it before the cursor."""
    selected: tuple[int, int, str] | None = field(init=False)
    draft: Draft | None = None
    """The latest one."""
    is_sent: bool = False
    """Whether the worker was asked."""
    waiting: list[InlineRequest] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None
    grace: asyncio.TimerHandle | None = None
    """Ends it, unless another request takes it over first."""

    def __post_init__(self) -> None:
        hole = self.hole
        statement = holes.statement_start(self.snapshot, hole.start)
        self.anchor = Anchor.from_text(self.snapshot.text, hole.start, hole.end, self.request.cursor.offset, statement)
        self.typed = self.anchor.typed_prefix
        self.selected = self.request.cursor.selected

    @cached_property
    def _drafts(self) -> DraftReader:
        return DraftReader(self.snapshot, [self.hole], self.request.budget.min_prob)

    @cached_property
    def _whole_drafts(self) -> DraftReader:
        """Reads what the model doubts, too."""
        return DraftReader(self.snapshot, [self.hole])

    @property
    def is_wanted(self) -> bool:
        return any(request.is_open for request in self.waiting)

    def follow(self, change: TextChange) -> bool:
        """Follows a change of the text. False: the result has become useless."""
        anchor = self.anchor.after_change(change)
        inside = self.anchor.contains(change)
        if anchor is None or anchor.original != self.anchor.original or (inside and not self._is_typed_on(change)):
            return False
        self.anchor = anchor
        self.typed += change.added if inside else ""
        return True

    @property
    def was_typed_in(self) -> bool:
        """Whether the user has typed in the hole since it began."""
        return self.typed != self.anchor.typed_prefix

    @property
    def contradicts_typed(self) -> bool:
        """Whether the latest draft is neither the start of what was typed nor begins with it; before one, False."""
        drafts = self._whole_drafts.read_holes(self.draft) if self.draft and self.was_typed_in else []
        return not all(hole.text.startswith(self.typed) or self.typed.startswith(hole.text) for hole in drafts)

    def can_answer(self, text: str, request: InlineRequest) -> bool:
        if request.invoked and not self.request.invoked:
            return False
        cursor = request.cursor
        if cursor.selected != self.selected or (cursor.selected and self.was_typed_in):
            return False
        end = self.anchor.start + len(self.typed)
        return cursor.offset == end and text[self.anchor.start : end] == self.typed

    def suggestions(self, result: FillResult) -> list[Suggestion]:
        """The answers as suggestions for the current text, best first."""
        invoked = self.request.invoked
        return [
            Suggestion(f"{self.id}.{index}", self.anchor, candidate.texts[0], self.hole, invoked)
            for index, candidate in enumerate(result.candidates)
        ]

    def show_draft(self, draft: Draft) -> None:
        for request in self.waiting:
            if request.on_draft is not None and request.is_open:
                request.on_draft(draft, partial(self.render_draft, draft, request.cursor.offset))

    def render_draft(self, draft: Draft, cursor: int, text: str) -> list[HoleDraft]:
        """The hole of `draft`, or the rest of a partly typed one, as `text` would show it at `cursor`; may be empty."""
        drafts = []
        for hole in self._drafts.read_holes(draft):
            ghost_text = Suggestion("", self.anchor, hole.text, self.hole).ghost_text(text, Cursor(cursor))
            if ghost_text is not None:
                first = ghost_text.start - self.anchor.start
                parts = slice_pieces(first, first + len(ghost_text.text), hole.pieces, hole.confidences)
                drafts.append(HoleDraft(ghost_text.start, ghost_text.end, ghost_text.text, *parts))
        return drafts

    def _is_typed_on(self, change: TextChange) -> bool:
        """Whether `change` appends to the typed text, so that the fill may still begin with all of it."""
        hole = self.hole
        typed = self.typed + change.added
        if not self.is_sent or change.removed or change.start != self.anchor.start + len(self.typed):
            return False
        lines = len(LINE_END.findall(change.added))
        if change.added in _PAIRS or lines > 1 or (hole.single_line and lines):  # the cursor may be before its end
            return False
        return typed.startswith(hole.starts_with) or hole.starts_with.startswith(typed)
