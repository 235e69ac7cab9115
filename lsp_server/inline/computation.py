"""One request to the worker for the hole at a cursor, and what the user types into that hole while it runs."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from lsp_server.carve import DEFAULT_MARKER, Span
from lsp_server.documents.change import Change
from lsp_server.documents.document import Snapshot
from lsp_server.documents.positions import LineIndex
from lsp_server.fill.pipeline import Budget, FillResult
from lsp_server.inline.anchor import Anchor
from lsp_server.inline.request import InlineRequest, TakeSnapshot
from lsp_server.inline.suggestion import Shown, Suggestion

_numbers = count(1)
_LINE_END = re.compile(r"\r\n|[\r\n]")
_PAIRS = ("()", "[]", "{}", '""', "''", "``")
"""What an editor that closes brackets and quotes inserts at once: the cursor stands between the two."""


@dataclass(frozen=True)
class ComputationOutcome:
    """What to show, best first, in a text with these lines; the document may have moved on when it is looked at."""

    found: Sequence[tuple[Suggestion, Shown]] = ()
    lines: LineIndex | None = None

    def __bool__(self) -> bool:
        return bool(self.found)


NOTHING = ComputationOutcome()


@dataclass(eq=False)
class PendingReply:
    """A request that waits for an answer; `cursor` follows the changes of the text. `outcome` may be cancelled."""

    question: InlineRequest
    snapshot: TakeSnapshot
    cursor: int
    outcome: "asyncio.Future[ComputationOutcome]"
    joined: bool = False
    """Whether it waits for work that another request began."""

    def answer(self, outcome: ComputationOutcome) -> None:
        """Answer the request, unless it was."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def fail(self, error: Exception) -> None:
        """Have the request fail, unless it was answered."""
        if not self.outcome.done():
            self.outcome.set_exception(error)


@dataclass(eq=False)
class Computation:
    """`place` is where the hole is in the current text, `typed` what stands in it before the cursor."""

    snapshot: Snapshot
    hole: Span
    place: Anchor
    effort: Budget
    invoked: bool
    marker: str = DEFAULT_MARKER
    ahead: bool = False
    """Computed before anybody has asked."""
    selected: tuple[int, int, str] | None = None
    id: str = field(default_factory=lambda: f"inline-{next(_numbers)}")
    typed: str = ""
    sent_at: float | None = None
    """When the worker was asked, in seconds of the event loop."""
    waiters: list[PendingReply] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None
    grace: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self.typed = self.place.head

    def takes(self, change: Change) -> bool:
        """Follow a change of the text. False: what is being computed is of no more use."""
        found = self.place.after(change)
        if found is None or found[1]:
            return False
        inside = self.place.start <= change.start and change.end <= self.place.end
        if inside and not self._goes_on(change):
            return False
        self.place = found[0]
        self.typed += change.added if inside else ""
        return True

    @property
    def is_amended(self) -> bool:
        """Whether anything was typed into it."""
        return self.typed != self.place.head

    def amendment(self) -> str | None:
        """What the worker has to be told of `typed`; None while the fill will begin with it anyway."""
        return None if self.hole.starts_with.startswith(self.typed) else self.typed

    def is_for(self, text: str, question: InlineRequest) -> bool:
        """Whether what is being computed answers `question`, too."""
        if question.invoked and not self.invoked:
            return False
        cursor = question.cursor
        if cursor.selected != self.selected or (self.selected and self.is_amended):
            return False
        end = self.place.start + len(self.typed)
        return cursor.offset == end and text[self.place.start : end] == self.typed

    def suggestions(self, filled: FillResult) -> list[Suggestion]:
        """The answers as suggestions for the current text, best first; none with new marks."""
        marks = max(self.place.before.count(self.marker), self.typed.count(self.marker))
        return [
            Suggestion(f"{self.id}.{number}", self.place, text, self.hole, confidence, self.invoked)
            for number, ((text,), confidence) in enumerate(zip(filled.answers, filled.confidences, strict=True))
            if text.count(self.marker) <= marks
        ]

    def _goes_on(self, change: Change) -> bool:
        """Whether `change` is more text behind what was typed, such as can be pinned."""
        hole, typed = self.hole, self.typed + change.added
        if self.sent_at is None or change.removed or change.start != self.place.start + len(self.typed):
            return False
        lines = len(_LINE_END.findall(change.added))
        if change.added in _PAIRS or lines > 1 or (hole.single_line and lines):  # the cursor may not stand at its end
            return False
        return typed.startswith(hole.starts_with) or hole.starts_with.startswith(typed)
