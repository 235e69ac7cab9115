"""One running computation of suggestions, which follows what the user types meanwhile."""

import asyncio
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count

from inference.ending import CLOSING, quote_of, slice_pieces, unpaired_in
from inference.messages import Draft
from inference.models.family import common_prefix_length
from lsp_server import holes
from lsp_server.documents.change import TextChange
from lsp_server.documents.document import Snapshot
from lsp_server.fill.drafts import DraftReader, HoleDraft
from lsp_server.fill.pipeline import FillResult
from lsp_server.inline.anchor import Anchor, Cursor
from lsp_server.inline.request import InlineRequest
from lsp_server.inline.suggestion import Suggestion, closes
from lsp_server.syntax.lines import LINE_END

_computation_numbers = count(1)


@dataclass(eq=False)
class FillComputation:
    """A fill of `hole` in `snapshot`, the `request` that started it, and the text typed meanwhile."""

    snapshot: Snapshot
    hole: holes.HoleSpan
    request: InlineRequest
    is_prefetch: bool = False
    """Whether it started ahead of any request."""
    id: str = field(default_factory=lambda: f"inline-{next(_computation_numbers)}")
    anchor: Anchor = field(init=False)
    """The hole's range in the current text."""
    typed: str = field(init=False)
    """The text in that range before the cursor."""
    selected: tuple[int, int, str] | None = field(init=False)
    draft: Draft | None = None
    """The latest draft."""
    is_sent: bool = False
    """Whether the request was sent to the worker."""
    waiting: list[InlineRequest] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None
    expiry_timer: asyncio.TimerHandle | None = None
    """Cancels the computation unless another request takes it over first."""

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
        """Also reads what follows the first improbable token."""
        return DraftReader(self.snapshot, [self.hole])

    @property
    def is_wanted(self) -> bool:
        return any(request.is_open for request in self.waiting)

    def follow(self, change: TextChange) -> bool:
        """Follows a change of the text. Returns False if that made the result useless."""
        anchor = self.anchor.after_change(change)
        inside = self.anchor.contains(change)
        if anchor is None or anchor.original != self.anchor.original or (inside and not self._continues_typed(change)):
            return False
        self.anchor = anchor
        self.typed += change.added if inside else ""
        return True

    @property
    def was_typed_in(self) -> bool:
        """Whether the user has typed in the hole since the computation started."""
        return self.typed != self.anchor.typed_prefix

    @property
    def contradicts_typed(self) -> bool:
        """Whether the latest draft, without added closers, and the typed text differ: neither is the other's start."""
        drafts = self._whole_drafts.read_holes(self.draft) if self.draft and self.was_typed_in else []
        closers = self.anchor.replaced_suffix
        texts = [hole.text[: len(hole.text) - common_prefix_length(hole.text[::-1], closers[::-1])] for hole in drafts]
        return not all(text.startswith(self.typed) or self.typed.startswith(text) for text in texts)

    def can_answer(self, text: str, request: InlineRequest) -> bool:
        if request.invoked and not self.request.invoked:
            return False
        cursor = request.cursor
        if cursor.selected != self.selected or (cursor.selected and self.was_typed_in):
            return False
        end = self.anchor.start + len(self.typed)
        return cursor.offset == end and text[self.anchor.start : end] == self.typed

    def suggestions(self, result: FillResult) -> list[Suggestion]:
        """The candidates as suggestions for the current text, best first."""
        return [self._suggestion(f"{self.id}.{rank}", fill.texts[0]) for rank, fill in enumerate(result.candidates)]

    def _suggestion(self, id_: str, text: str) -> Suggestion:
        """A suggestion of `text` for the hole. The cursor stays before closers that end both."""
        anchor, closers = self.anchor, self.anchor.replaced_suffix
        bare = text.removesuffix(closers)
        if bare != text and not closers.strip(CLOSING) and not any(unpaired_in(bare, quote_of(closers))):
            anchor, text = replace(anchor, end=anchor.end - len(closers), original=anchor.typed_prefix), bare
        return Suggestion(id_, anchor, text, self.hole, self.request.invoked)

    def show_draft(self, draft: Draft) -> None:
        for request in self.waiting:
            if request.on_draft is not None and request.is_open:
                request.on_draft(draft, partial(self.render_draft, draft, request.cursor.offset))

    def render_draft(self, draft: Draft, cursor: int, text: str) -> list[HoleDraft]:
        """The ghost text of `draft` in `text` at `cursor`, without what the user has typed of it; may be empty."""
        drafts = []
        for hole in self._drafts.read_holes(draft):
            ghost_text = self._suggestion("", hole.text).ghost_text(text, Cursor(cursor))
            if ghost_text is not None:
                first = ghost_text.start - self.anchor.start
                parts = slice_pieces(first, first + len(ghost_text.text), hole.pieces, hole.confidences)
                drafts.append(HoleDraft(ghost_text.start, ghost_text.end, ghost_text.text, *parts))
        return drafts

    def _continues_typed(self, change: TextChange) -> bool:
        """Whether `change` appends to the typed text, so that the fill may still begin with all of it."""
        hole = self.hole
        typed = self.typed + change.added
        if not self.is_sent or change.removed or change.start != self.anchor.start + len(self.typed):
            return False
        lines = len(LINE_END.findall(change.added))
        is_pair = len(change.added) > 1 and closes(change.added[:1], change.added[1:])
        if is_pair or lines > 1 or (hole.single_line and lines):  # the cursor may be inside `added`
            return False
        return typed.startswith(hole.starts_with) or hole.starts_with.startswith(typed)
