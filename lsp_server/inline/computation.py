"""One request to the worker for the hole at a cursor, and what the user types into that hole meanwhile."""

import asyncio
import re
from dataclasses import dataclass, field, replace
from itertools import count

from inference.messages import Draft
from lsp_server.carve import DEFAULT_MARKER, Span
from lsp_server.documents.change import Change
from lsp_server.documents.document import Snapshot
from lsp_server.fill.feature import Asked
from lsp_server.fill.pipeline import Budget, FillResult
from lsp_server.inline.anchor import Anchor
from lsp_server.inline.request import DraftedHole, InlineRequest, PendingReply, anchor_at, hole_for
from lsp_server.inline.suggestion import Cursor, Suggestion

_numbers = count(1)
_LINE_END = re.compile(r"\r\n|[\r\n]")
_PAIRS = ("()", "[]", "{}", '""', "''", "``")
"""Pairs that an editor inserts together when it closes brackets and quotes: the cursor ends up between them."""


@dataclass(eq=False)
class Computation:
    """`anchor` is the hole's place in the current text, `typed` the text in it before the cursor."""

    snapshot: Snapshot
    hole: Span
    anchor: Anchor
    budget: Budget
    invoked: bool
    marker: str = DEFAULT_MARKER
    is_prefetch: bool = False
    """Whether it started ahead of any request."""
    selected: tuple[int, int, str] | None = None
    id: str = field(default_factory=lambda: f"inline-{next(_numbers)}")
    typed: str = ""
    sent_at_s: float | None = None
    """When the worker was asked, on the event loop's clock; None: not yet."""
    replies: list[PendingReply] = field(default_factory=list)
    """The requests waiting for it."""
    task: "asyncio.Task[None] | None" = None
    grace: asyncio.TimerHandle | None = None
    """Ends it, unless another request takes it over first."""

    def __post_init__(self) -> None:
        self.typed = self.anchor.head

    @classmethod
    def of(cls, snapshot: Snapshot, request: InlineRequest, cursor: Cursor) -> "Computation | None":
        """The computation for `request` with the cursor at `cursor` of `snapshot`; None if there is no hole."""
        hole = hole_for(snapshot, cursor, request.marker)
        if hole is None:
            return None
        anchor = anchor_at(snapshot, hole, cursor.offset)
        return cls(snapshot, hole, anchor, request.budget, request.invoked, request.marker, selected=cursor.selected)

    def follow(self, change: Change) -> bool:
        """Follows a change of the text. False: the result has become useless."""
        found = self.anchor.after(change)
        if found is None or found[1]:
            return False
        inside = self.anchor.contains(change)
        if inside and not self._can_pin(change):
            return False
        self.anchor = found[0]
        self.typed += change.added if inside else ""
        return True

    @property
    def is_amended(self) -> bool:
        """Whether the user typed into the hole."""
        return self.typed != self.anchor.head

    def amendment(self) -> str | None:
        """The part of `typed` to send to the worker; None if the fill will begin with it anyway."""
        return None if self.hole.starts_with.startswith(self.typed) else self.typed

    def answers(self, text: str, request: InlineRequest) -> bool:
        """Whether the result will also answer `request`."""
        if request.invoked and not self.invoked:
            return False
        cursor = request.cursor
        if cursor.selected != self.selected or (self.selected and self.is_amended):
            return False
        end = self.anchor.start + len(self.typed)
        return cursor.offset == end and text[self.anchor.start : end] == self.typed

    def suggestions(self, filled: FillResult) -> list[Suggestion]:
        """The answers as suggestions for the current text, best first, leaving out any that adds a marker."""
        markers = max(self.anchor.original.count(self.marker), self.typed.count(self.marker))
        return [
            Suggestion(f"{self.id}.{number}", self.anchor, each.texts[0], self.hole, each.confidence, self.invoked)
            for number, each in enumerate(filled.candidates)
            if each.texts[0].count(self.marker) <= markers
        ]

    def asked(self, shown: Suggestion) -> Asked | None:
        """What the model was just asked, if this is its answer; None if the user has typed into the hole since."""
        if self.sent_at_s is None or self.is_amended or shown.computation != self.id:
            return None
        took_ms = (asyncio.get_running_loop().time() - self.sent_at_s) * 1000
        return Asked(self.snapshot, [self.hole], [shown.text], self.budget, self.marker, took_ms)

    def show(self, draft: Draft) -> None:
        """Passes a draft to the requests that want it."""
        for reply in self.replies:
            if reply.request.on_draft is not None and not reply.result.done():
                reply.request.on_draft(draft, DraftedHole(self.snapshot, self.hole, self.anchor, reply.cursor))

    def _can_pin(self, change: Change) -> bool:
        """Whether `change` appends to the typed text in a way the worker can pin."""
        hole = self.hole
        typed = self.typed + change.added
        if self.sent_at_s is None or change.removed or change.start != self.anchor.start + len(self.typed):
            return False
        lines = len(_LINE_END.findall(change.added))
        if change.added in _PAIRS or lines > 1 or (hole.single_line and lines):  # the cursor may be before its end
            return False
        return typed.startswith(hole.starts_with) or hole.starts_with.startswith(typed)


@dataclass(frozen=True)
class Accepted:
    """The user accepted `text`, the start of `suggestion` or all of it. What follows is prefetched within `budget`."""

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
        anchor = self.suggestion.anchor
        marker = self.marker
        cursor = anchor.start + len(self.text)
        hole: Span | None
        if self.is_whole:
            hole = hole_for(snapshot, Cursor(cursor), marker)
        else:
            hole = replace(self.suggestion.hole, start=anchor.start, end=anchor.end, starts_with=self.text)
        if hole is None:
            return None
        after = anchor_at(snapshot, hole, cursor)
        return Computation(snapshot, hole, after, budget, invoked=False, marker=marker, is_prefetch=True)
