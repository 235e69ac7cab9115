"""A request for inline completions, its answer, and its hole."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from inference.messages import Draft
from lsp_server import carve
from lsp_server.documents.document import Snapshot
from lsp_server.documents.positions import LineIndex
from lsp_server.fill.drafts import DraftReader, HoleDraft
from lsp_server.fill.pipeline import Budget
from lsp_server.inline.anchor import Anchor
from lsp_server.inline.suggestion import Cursor, GhostText, Suggestion

OnDraft = Callable[[Draft, "DraftedHole"], None]


@dataclass(frozen=True)
class DraftedHole:
    """The subject of a draft: `hole` of `snapshot`, now at `anchor` of the current document."""

    snapshot: Snapshot
    hole: carve.Span
    anchor: Anchor
    cursor: int

    def holes(self, draft: Draft, text: str) -> list[HoleDraft]:
        """The hole of `draft`, or the rest of a partly typed one, as `text` would show it now; may be empty."""
        found = DraftReader(self.snapshot, [self.hole]).read(draft)
        return [moved for hole in found if (moved := self._moved(hole, text)) is not None]

    def _moved(self, hole: HoleDraft, text: str) -> HoleDraft | None:
        shown = Suggestion("", self.anchor, hole.text, self.hole).at(text, Cursor(self.cursor))
        if shown is None:
            return None
        parts = hole.part(shown.start - self.anchor.start, len(shown.text))
        return HoleDraft(shown.start, shown.end, shown.text, *parts)


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

    def fail(self, error: Exception) -> None:
        """Fails the request, unless it already has an answer."""
        if not self.result.done():
            self.result.set_exception(error)


def anchor_at(snapshot: Snapshot, hole: carve.Span, cursor: int) -> Anchor:
    """The range of a hole in the text of `snapshot`, with the cursor at the offset `cursor`."""
    return Anchor.of(snapshot.text, hole.start, hole.end, cursor, carve.statement_start(snapshot, hole.start))


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
