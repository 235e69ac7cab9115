"""A place in a text that is being edited: found again after each change, and what was typed in it known.

Whatever is typed or deleted inside stays inside, so that what replaces the place gives the same text before and after.
"""

from dataclasses import dataclass, replace

from lsp_server.documents.change import Change

MAX_ELSEWHERE_CHARACTERS = 300
"""When more than that has changed elsewhere, what belongs here was computed for another text."""
MAX_TAKEN_BACK_CHARACTERS = 64
"""So much may be deleted in front of a place; whoever deletes more is about something else."""


@dataclass(frozen=True)
class Anchor:
    """`[start, end)` of the current text. `before` stood there when the cursor was `cursor` behind the start."""

    start: int
    end: int
    before: str
    cursor: int
    elsewhere: int = 0
    """How many characters have been typed or deleted outside it since."""

    @classmethod
    def of(cls, text: str, start: int, end: int, cursor: int) -> "Anchor":
        """`[start, end)` of `text`, with the cursor at the offset `cursor`."""
        return cls(start, end, text[start:end], cursor - start)

    @property
    def head(self) -> str:
        """What stood before the cursor."""
        return self.before[: self.cursor]

    @property
    def tail(self) -> str:
        """What stood behind the cursor, up to the end."""
        return self.before[self.cursor :]

    def after(self, change: Change) -> "tuple[Anchor, str] | None":
        """The place after a change, and what was taken back in front of it; None where it is lost.

        What was taken back belongs to the place from now on: to type it again makes no difference to the whole.
        """
        if self.start <= change.start and change.end <= self.end:
            return Anchor(self.start, self.end + change.shift, self.before, self.cursor, self.elsewhere), ""
        if change.start < self.start <= change.end <= self.end and change.removed:
            return self._taken_back(change)
        return self._moved(change)

    def _taken_back(self, change: Change) -> "tuple[Anchor, str] | None":
        taken = change.removed[: self.start - change.start]
        if len(taken) > MAX_TAKEN_BACK_CHARACTERS or "\n" in taken or "\r" in taken:
            return None
        grown = replace(self, start=change.start, end=self.end + change.shift)
        return replace(grown, before=taken + self.before, cursor=self.cursor + len(taken)), taken

    def _moved(self, change: Change) -> "tuple[Anchor, str] | None":
        elsewhere = self.elsewhere + len(change.removed) + len(change.added)
        if elsewhere > MAX_ELSEWHERE_CHARACTERS:
            return None
        if change.end <= self.start:
            shift = change.shift
        elif change.start > self.end:
            shift = 0
        else:  # the text right behind it, or on both sides, has changed
            return None
        return Anchor(self.start + shift, self.end + shift, self.before, self.cursor, elsewhere), ""
