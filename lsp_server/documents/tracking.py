"""Ranges of a text under edit, and edits sent to the editor that it may not apply."""

from collections.abc import Sequence
from dataclasses import dataclass

from lsp_server.documents.change import Change, difference

_MOST_GROWTH = 2
"""When a change replaces the range and more, take a text up to this many times as long as the range's new content."""


def smallest(change: Change) -> Change:
    """The same change without what is equal at both ends: some editors send whole lines, or the whole text."""
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
        """Its text."""
        return text[self.start : self.end]

    def after(self, change: Change, began_as: str = "", *, grows: bool = False) -> "TextRange | None":
        """The range after a change, made `smallest`; None if its place is unknown.

        Text typed at its edges belongs to it only if it `grows`. `began_as` is looked for in a change of more than the
        range.
        """
        at_edge = change.start == change.end and change.start in (self.start, self.end)
        if grows and (at_edge or (change.start, change.end) == (self.start, self.end)):
            return TextRange(self.start, self.end + change.shift)
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


class ExpectedEdit:
    """An edit sent to the editor; it has happened once the document has the resulting text, with `texts` at `places`.

    Once something else was typed, that text can come about only by chance, so the edit `is_given_up`.
    """

    def __init__(self, text: str, ranges: Sequence[TextRange], texts: Sequence[str]) -> None:
        parts = list[str]()
        places = list[TextRange]()
        end = 0
        length = 0
        for place, new in zip(ranges, texts, strict=True):
            parts += [text[end : place.start], new]
            length += place.start - end
            places.append(TextRange(length, length + len(new)))
            length = length + len(new)
            end = place.end
        self.text = "".join([*parts, text[end:]])
        self.places = tuple(places)
        self.is_given_up = False
        self._added = {difference(place.of(text), new).added for place, new in zip(ranges, texts, strict=True)}

    def has_happened(self, changes: Sequence[Change], text: str) -> bool:
        """Whether the document, now `text`, is the expected one. Call it after each change."""
        self.is_given_up = self.is_given_up or any(smallest(change).added not in self._added for change in changes)
        return text == self.text
