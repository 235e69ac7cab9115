"""A range of a text that goes on being edited: where it is after each change, however the changes lie to it."""

from dataclasses import dataclass

from lsp_server.documents.change import Change, difference

_MOST_GROWTH = 2
"""A text up to so many times as long as the range, in place of all of it and more, is what stands there now."""


def smallest(change: Change) -> Change:
    """The same change without what is the same at both ends: some editors send whole lines, or the whole text."""
    if not change.removed:
        return change
    inner = difference(change.removed, change.added)
    return Change(change.start + inner.start, inner.removed, inner.added)


@dataclass(frozen=True)
class TextRange:
    """`[start, end)` of the current text."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """What stands in it."""
        return text[self.start : self.end]

    def after(self, change: Change, began_as: str) -> "TextRange | None":
        """The range after a change, made `smallest`; None where nobody can tell where it is.

        What is typed right before or behind it is no part of it. `began_as` is looked for in a change that replaces the
        range and what is around it, as a formatter does.
        """
        if change.end <= self.start:
            return TextRange(self.start + change.shift, self.end + change.shift)
        if change.start >= self.end:
            return self
        if change.start <= self.start and self.end <= change.end:
            return self._replaced(change, began_as)
        ends_inside = change.end <= self.end
        return TextRange(
            min(self.start, change.start), self.end + change.shift if ends_inside else change.start + len(change.added)
        )

    def _replaced(self, change: Change, began_as: str) -> "TextRange | None":
        if began_as and change.added.count(began_as) == 1:
            start = change.start + change.added.index(began_as)
            return TextRange(start, start + len(began_as))
        if len(change.added) > _MOST_GROWTH * (self.end - self.start):
            return None
        return TextRange(change.start, change.start + len(change.added))
