"""A range of a text that is being edited: each change moves it, and what is typed in it stays in it.

Replacing the range therefore gives the same text before and after the change.
"""

from dataclasses import dataclass, replace

from lsp_server.documents.change import Change

MAX_CHANGED_ELSEWHERE_CHARACTERS = 300
"""Once more than this has changed outside the range, what was computed for it was computed for another text."""
MAX_TAKEN_BACK_CHARACTERS = 64
"""The most that may be deleted in front of the range; a user who deletes more is doing something else."""


@dataclass(frozen=True)
class Anchor:
    """`[start, end)` of the current text. It began as `original`, with the cursor `cursor` characters into it."""

    start: int
    end: int
    original: str
    cursor: int
    changed_elsewhere: int = 0
    """How many characters have been typed or deleted outside the range since."""

    @classmethod
    def of(cls, text: str, start: int, end: int, cursor: int) -> "Anchor":
        """`[start, end)` of `text`, with the cursor at the offset `cursor` of `text`."""
        return cls(start, end, text[start:end], cursor - start)

    @property
    def head(self) -> str:
        """The original text before the cursor."""
        return self.original[: self.cursor]

    @property
    def tail(self) -> str:
        """The original text behind the cursor."""
        return self.original[self.cursor :]

    def contains(self, change: Change) -> bool:
        """Whether `change` happens inside the range."""
        return self.start <= change.start and change.end <= self.end

    def after(self, change: Change) -> "tuple[Anchor, str] | None":
        """The range after a change, and the text that was deleted in front of it; None where the range is lost.

        The deleted text belongs to the range from now on: typing it again makes no difference to the whole.
        """
        if self.contains(change):
            moved = Anchor(self.start, self.end + change.shift, self.original, self.cursor, self.changed_elsewhere)
            return moved, ""
        if change.start < self.start <= change.end <= self.end and change.removed:
            return self._taken_back(change)
        return self._moved(change)

    def _taken_back(self, change: Change) -> "tuple[Anchor, str] | None":
        taken = change.removed[: self.start - change.start]
        if len(taken) > MAX_TAKEN_BACK_CHARACTERS or "\n" in taken or "\r" in taken:
            return None
        grown = replace(self, start=change.start, end=self.end + change.shift)
        return replace(grown, original=taken + self.original, cursor=self.cursor + len(taken)), taken

    def _moved(self, change: Change) -> "tuple[Anchor, str] | None":
        changed_elsewhere = self.changed_elsewhere + len(change.removed) + len(change.added)
        if changed_elsewhere > MAX_CHANGED_ELSEWHERE_CHARACTERS:
            return None
        if change.end <= self.start:
            shift = change.shift
        elif change.start > self.end:
            shift = 0
        else:  # the text right behind the range, or on both sides of it, has changed
            return None
        return Anchor(self.start + shift, self.end + shift, self.original, self.cursor, changed_elsewhere), ""
