"""A range of a text under edit, which keeps what is typed inside. So replacing it gives the same text at any time."""

from dataclasses import dataclass, replace

from lsp_server.documents.change import Change
from lsp_server.syntax.lines import line_start

MAX_CHANGED_ELSEWHERE_CHARACTERS = 300
"""After more changes than this outside the range, its result belongs to a different text."""
MAX_TAKEN_BACK_CHARACTERS = 64
"""Deleting more than this in front of the range means the user is doing something else."""
MAX_LEAD_CHARACTERS = 1000
"""Compare only the end of a longer statement."""


@dataclass(frozen=True)
class Anchor:
    """`[start, end)` of the current text, originally `original` with the cursor `cursor` characters into it.

    Its result depends on `lead`, the text in front of it from the line where its statement begins.
    """

    start: int
    end: int
    original: str
    cursor: int
    lead: str = ""
    changed_elsewhere: int = 0
    """The number of characters typed or deleted outside the range since then."""

    @classmethod
    def of(cls, text: str, start: int, end: int, cursor: int, statement: int | None = None) -> "Anchor":
        """`[start, end)` of `text`, in a statement that begins at `statement`, by default at the start of the line."""
        first = line_start(text, min(start, start if statement is None else statement))
        return cls(start, end, text[start:end], cursor - start, text[max(first, start - MAX_LEAD_CHARACTERS) : start])

    @property
    def head(self) -> str:
        """The original text before the cursor."""
        return self.original[: self.cursor]

    @property
    def tail(self) -> str:
        """The original text behind the cursor."""
        return self.original[self.cursor :]

    def is_fresh(self, text: str) -> bool:
        """Whether the text of its statement in front of it is the same in `text`."""
        first = self.start - len(self.lead)
        if not text.startswith(self.lead, first):
            return False
        return len(self.lead) == MAX_LEAD_CHARACTERS or first == line_start(text, first)

    def contains(self, change: Change) -> bool:
        """Whether `change` falls inside the range."""
        return self.start <= change.start and change.end <= self.end

    def after(self, change: Change) -> "tuple[Anchor, str] | None":
        """The range after a change, and the text deleted in front of it, now part of it; None if the range is lost."""
        if self.contains(change):
            return self._at(self.start, self.end + change.shift, self.changed_elsewhere), ""
        if change.start < self.start <= change.end <= self.end and change.removed:
            return self._taken_back(change)
        return self._moved(change)

    def _taken_back(self, change: Change) -> "tuple[Anchor, str] | None":
        taken = change.removed[: self.start - change.start]
        if len(taken) > MAX_TAKEN_BACK_CHARACTERS or "\n" in taken or "\r" in taken or not self.lead.endswith(taken):
            return None
        grown = replace(self, start=change.start, end=self.end + change.shift, lead=self.lead[: -len(taken)])
        return replace(grown, original=taken + self.original, cursor=self.cursor + len(taken)), taken

    def _moved(self, change: Change) -> "tuple[Anchor, str] | None":
        changed_elsewhere = self.changed_elsewhere + len(change.removed) + len(change.added)
        if changed_elsewhere > MAX_CHANGED_ELSEWHERE_CHARACTERS:
            return None
        if change.end <= self.start:
            shift = change.shift
        elif change.start > self.end:
            shift = 0
        else:  # the text just behind the range, or on both sides of it, has changed
            return None
        return self._at(self.start + shift, self.end + shift, changed_elsewhere), ""

    def _at(self, start: int, end: int, changed_elsewhere: int) -> "Anchor":
        return Anchor(start, end, self.original, self.cursor, self.lead, changed_elsewhere)
