"""Positions that follow the text while it is edited: the range that a suggestion fills, and the cursor."""

from dataclasses import dataclass, replace

from lsp_server.documents.change import TextChange
from lsp_server.syntax.lines import is_one_line, line_start

MAX_CHANGED_ELSEWHERE_CHARACTERS = 300
"""After more changes than this outside the range, its result belongs to a different text."""
MAX_DELETED_CHARACTERS = 64
"""Deleting more than this before the range means the user is doing something else."""
MAX_LEAD_CHARACTERS = 1000
"""Compare only the end of a longer statement."""


@dataclass(frozen=True)
class Anchor:
    """`[start, end)` of the current text, originally `original` with the cursor `cursor` characters into it.

    Its result depends on `lead`, the text before it from the line where its statement begins.
    """

    start: int
    end: int
    original: str
    cursor: int
    lead: str = ""
    changed_elsewhere: int = 0
    """The number of characters typed or deleted outside the range since then."""

    @classmethod
    def from_text(cls, text: str, start: int, end: int, cursor: int, statement: int | None = None) -> "Anchor":
        """`[start, end)` of `text`, in a statement that begins at `statement`, by default at the start of the line."""
        first = line_start(text, min(start, start if statement is None else statement))
        return cls(start, end, text[start:end], cursor - start, text[max(first, start - MAX_LEAD_CHARACTERS) : start])

    @property
    def typed_prefix(self) -> str:
        return self.original[: self.cursor]

    @property
    def replaced_suffix(self) -> str:
        return self.original[self.cursor :]

    def is_fresh(self, text: str) -> bool:
        """Whether `text` has the same `lead` before the range."""
        first = self.start - len(self.lead)
        if not text.startswith(self.lead, first):
            return False
        return len(self.lead) == MAX_LEAD_CHARACTERS or first == line_start(text, first)

    def contains(self, change: TextChange) -> bool:
        return self.start <= change.start and change.end <= self.end

    def after_change(self, change: TextChange) -> "Anchor | None":
        """The range after a change; text deleted right before it becomes part of it. None if the range is lost."""
        if self.contains(change):
            return self._moved(self.start, self.end + change.shift, self.changed_elsewhere)
        if change.start < self.start <= change.end <= self.end and change.removed:
            return self._extended_back(change)
        changed_elsewhere = self.changed_elsewhere + len(change.removed) + len(change.added)
        if changed_elsewhere > MAX_CHANGED_ELSEWHERE_CHARACTERS:
            return None
        if change.end <= self.start:
            return self._moved(self.start + change.shift, self.end + change.shift, changed_elsewhere)
        return self._moved(self.start, self.end, changed_elsewhere) if change.start > self.end else None

    def _extended_back(self, change: TextChange) -> "Anchor | None":
        deleted = change.removed[: self.start - change.start]
        if len(deleted) > MAX_DELETED_CHARACTERS or not is_one_line(deleted) or not self.lead.endswith(deleted):
            return None
        extended = replace(self, start=change.start, end=self.end + change.shift, lead=self.lead[: -len(deleted)])
        return replace(extended, original=deleted + self.original, cursor=self.cursor + len(deleted))

    def _moved(self, start: int, end: int, changed_elsewhere: int) -> "Anchor":
        return Anchor(start, end, self.original, self.cursor, self.lead, changed_elsewhere)


@dataclass(frozen=True)
class Cursor:
    """The cursor, and the item selected in the editor's list of completions: a range and its new text."""

    offset: int
    selected: tuple[int, int, str] | None = None

    def after_change(self, change: TextChange) -> "Cursor":
        return Cursor(change.move_offset(self.offset))
