"""The latest fills of one document and the partner's replacements. An edit is a fill once the document has its text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lsp_server.carve import Span
from lsp_server.documents.change import Change
from lsp_server.documents.document import Snapshot
from lsp_server.documents.tracking import ExpectedEdit, TextRange, smallest

KEPT = 16


class Better(NamedTuple):
    """The partner's replacement for `draft`."""

    draft: str
    text: str


@dataclass(frozen=True)
class MadeFill:
    """A text that was inserted into a hole and is now at `place`."""

    number: int
    place: TextRange
    began_as: str
    better: Better | None = None

    def after(self, change: Change) -> "MadeFill | None":
        """The same after a change; None if its place is lost."""
        place = self.place.after(change, self.began_as)
        return None if place is None or place.start == place.end else replace(self, place=place)


class Made(NamedTuple):
    """Fills in the text since the last change, and the model's joint confidence in them."""

    fills: tuple[MadeFill, ...]
    confidence: float


class MadeFills:
    """The latest fills of one document, newest first. Must see every change."""

    def __init__(self) -> None:
        self._fills: list[MadeFill] = []
        self._expected: tuple[ExpectedEdit, list[tuple[TextRange, str]], float] | None = None
        self._numbers = 0

    def expect(self, snapshot: Snapshot, spans: Sequence[Span], texts: Sequence[str], confidence: float) -> None:
        """The editor gets these texts for the holes of `snapshot`. Only the latest such edit counts."""
        edit = ExpectedEdit(snapshot.text, [TextRange(span.start, span.end) for span in spans], texts)
        each = zip(spans, edit.places, texts, strict=True)
        new = [(at, text) for span, at, text in each if text.strip() and text != snapshot.text[span.start : span.end]]
        self._expected = edit, new, confidence

    def add(self, start: int, text: str) -> None:
        """`text` was inserted at `start` of the current document."""
        if text.strip():
            self._keep([(TextRange(start, start + len(text)), text)])

    def changed(self, changes: Sequence[Change], text: str) -> Made | None:
        """`changes` led to `text`. Returns the fills that they made."""
        for change in map(smallest, changes):
            moved = (fill.after(change) for fill in self._fills)
            self._fills = [fill for fill in moved if fill is not None]
        if self._expected is None:
            return None
        edit, new, confidence = self._expected
        if edit.has_happened(changes, text):
            self._expected = None
            return Made(tuple(self._keep(new)), confidence)
        if edit.is_given_up:
            self._expected = None
        return None

    def at(self, offset: int) -> MadeFill | None:
        """The newest fill at a cursor; None if there is none."""
        return next((fill for fill in self._fills if fill.place.start <= offset <= fill.place.end), None)

    def now(self, fill: MadeFill) -> MadeFill | None:
        """A fill at its current place; None if it is gone."""
        return next((each for each in self._fills if each.number == fill.number), None)

    def offer(self, fill: MadeFill, better: Better) -> None:
        """Stores the partner's text for a fill."""
        self._fills = [replace(each, better=better) if each.number == fill.number else each for each in self._fills]

    def better(self, start: int, end: int, text: str) -> str | None:
        """The partner's replacements for [start, end) of the current document; None: nothing yet."""
        standing = text[start:end]
        for fill in self._fills:
            inside = fill.place.start <= start and end <= fill.place.end
            if inside and fill.better is not None and fill.better.draft == standing:
                return fill.better.text
        return None

    def _keep(self, places: Sequence[tuple[TextRange, str]]) -> list[MadeFill]:
        found = []
        for place, text in places:
            self._numbers += 1
            found.append(MadeFill(self._numbers, place, text))
        self._fills = [*found, *self._fills][:KEPT]
        return found
