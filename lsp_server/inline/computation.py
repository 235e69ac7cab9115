"""A request for inline completions, and the computation that answers it: one request to the worker, for one hole."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from inference.messages import Draft
from lsp_server import carve
from lsp_server.documents.change import Change
from lsp_server.documents.document import Snapshot
from lsp_server.documents.positions import LineIndex
from lsp_server.fill.drafts import DraftReader, HoleDraft
from lsp_server.fill.feature import Asked
from lsp_server.fill.pipeline import Budget, FillResult
from lsp_server.inline.suggestion import Anchor, Cursor, GhostText, Suggestion

ReadDraft = Callable[[str], list[HoleDraft]]
"""The hole of a draft, or the rest of a partly typed one, as the current text would show it; may be empty."""
OnDraft = Callable[[Draft, ReadDraft], None]
_numbers = count(1)
_LINE_END = re.compile(r"\r\n|[\r\n]")
_PAIRS = ("()", "[]", "{}", '""', "''", "``")
"""Pairs that an editor inserts together when it closes brackets and quotes: the cursor ends up between them."""


@dataclass(frozen=True)
class InlineRequest:
    """A request at a cursor. `floor` (least confidence) and `pause_s` apply to automatic requests.

    `wants_empty`: ranges are empty where nothing behind the cursor is replaced.
    """

    cursor: Cursor
    budget: Budget
    marker: str
    invoked: bool = False
    floor: float = 0.0
    pause_s: float = 0.0
    on_draft: OnDraft | None = None
    wants_empty: bool = False


@dataclass(frozen=True)
class InlineResult:
    """What to show, best first, in a text with these lines; the document may have moved on when this is read."""

    found: Sequence[tuple[Suggestion, GhostText]] = ()
    lines: LineIndex | None = None
    around: tuple[str, str] = ("", "")
    """The cursor's line, before and behind the cursor."""

    def __bool__(self) -> bool:
        return bool(self.found)

    @property
    def is_a_choice(self) -> bool:
        """Whether the user asked explicitly and has several to choose from, such as a draft and its improvement."""
        if self.found and self.found[0][0].is_refined:
            return True
        return len(self.found) > 1 and all(suggestion.invoked for suggestion, _ in self.found)


NOTHING = InlineResult()


@dataclass(eq=False)
class PendingReply:
    """An open request. `cursor` follows the changes of the text; `result` may be cancelled."""

    request: InlineRequest
    cursor: int
    result: "asyncio.Future[InlineResult]"
    joined: bool = False
    """Whether it waits for a computation that another request started."""

    def answer(self, result: InlineResult) -> None:
        """Answers the request, unless it already has an answer."""
        if not self.result.done():
            self.result.set_result(result)


def hole_for(snapshot: Snapshot, cursor: Cursor, marker: str) -> carve.Span | None:
    """The hole at a cursor if it is on one line, since an editor can show a fill nowhere else.

    With an item selected in the editor's list, the fill extends that item and replaces the same range.
    """
    hole = carve.at_cursor(snapshot, cursor.offset, marker)
    if hole is None or snapshot.lines.line_of(hole.start) != snapshot.lines.line_of(hole.end):
        return None
    if cursor.selected is None:
        return hole
    start, end, text = cursor.selected
    if not start <= cursor.offset <= end:
        return None
    return replace(hole, start=start, end=max(hole.end, end), starts_with=text)


@dataclass(eq=False)
class Computation:
    """The fill of `hole` for `request`, whose cursor is at `cursor` of `snapshot`, and what is typed meanwhile."""

    snapshot: Snapshot
    hole: carve.Span
    request: InlineRequest
    cursor: Cursor
    is_prefetch: bool = False
    """Whether it started ahead of any request."""
    id: str = field(default_factory=lambda: f"inline-{next(_numbers)}")
    anchor: Anchor = field(init=False)
    """The hole's place in the current text."""
    typed: str = field(init=False)
    """The text in it before the cursor."""
    sent_at_s: float | None = None
    """When the worker was asked, on the event loop's clock; None: not yet."""
    replies: list[PendingReply] = field(default_factory=list)
    """The requests waiting for it."""
    task: "asyncio.Task[None] | None" = None
    grace: asyncio.TimerHandle | None = None
    """Ends it, unless another request takes it over first."""

    def __post_init__(self) -> None:
        hole = self.hole
        statement = carve.statement_start(self.snapshot, hole.start)
        self.anchor = Anchor.of(self.snapshot.text, hole.start, hole.end, self.cursor.offset, statement)
        self.typed = self.anchor.head

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
        if request.invoked and not self.request.invoked:
            return False
        cursor = request.cursor
        if cursor.selected != self.cursor.selected or (cursor.selected and self.is_amended):
            return False
        end = self.anchor.start + len(self.typed)
        return cursor.offset == end and text[self.anchor.start : end] == self.typed

    def suggestions(self, filled: FillResult) -> list[Suggestion]:
        """The answers as suggestions for the current text, best first, leaving out any that adds a marker."""
        marker = self.request.marker
        invoked = self.request.invoked
        markers = max(self.anchor.original.count(marker), self.typed.count(marker))
        return [
            Suggestion(f"{self.id}.{number}", self.anchor, each.texts[0], self.hole, each.confidence, invoked)
            for number, each in enumerate(filled.candidates)
            if each.texts[0].count(marker) <= markers
        ]

    def asked(self, shown: Suggestion) -> Asked | None:
        """What the model was just asked, if this is its answer; None if the user has typed into the hole since."""
        if self.sent_at_s is None or self.is_amended or shown.computation != self.id:
            return None
        took_ms = (asyncio.get_running_loop().time() - self.sent_at_s) * 1000
        return Asked(self.snapshot, [self.hole], [shown.text], self.request.budget, self.request.marker, took_ms)

    def show(self, draft: Draft) -> None:
        """Passes a draft to the requests that want it."""
        for reply in self.replies:
            if reply.request.on_draft is not None and not reply.result.done():
                reply.request.on_draft(draft, partial(self.drafted, draft, reply.cursor))

    def drafted(self, draft: Draft, cursor: int, text: str) -> list[HoleDraft]:
        """The hole of `draft`, or the rest of a partly typed one, as `text` would show it at `cursor`; may be empty."""
        found = []
        for hole in DraftReader(self.snapshot, [self.hole]).read(draft):
            shown = Suggestion("", self.anchor, hole.text, self.hole).at(text, Cursor(cursor))
            if shown is not None:
                parts = hole.part(shown.start - self.anchor.start, len(shown.text))
                found.append(HoleDraft(shown.start, shown.end, shown.text, *parts))
        return found

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
        cursor = Cursor(anchor.start + len(self.text))
        hole: carve.Span | None
        if self.is_whole:
            hole = hole_for(snapshot, cursor, self.marker)
        else:
            hole = replace(self.suggestion.hole, start=anchor.start, end=anchor.end, starts_with=self.text)
        request = InlineRequest(cursor, budget, self.marker)
        return None if hole is None else Computation(snapshot, hole, request, cursor, is_prefetch=True)
