"""One suggestion, and what of it is still to be typed.

A suggestion replaces its place by its text. As the place keeps all that is typed in it, that gives the same text
however much of it was typed meanwhile; whether it may still be shown is all there is to decide.
"""

from dataclasses import dataclass

from lsp_server.carve import Span
from lsp_server.documents.change import Change
from lsp_server.inline.anchor import Anchor
from lsp_server.inline.closers import are_closed_by_editor
from lsp_server.syntax.lines import line_start


@dataclass(frozen=True)
class Cursor:
    """Where the cursor stands, and the item selected in the editor's list of completions: a range and its new text."""

    offset: int
    selected: tuple[int, int, str] | None = None


@dataclass(frozen=True)
class Shown:
    """What an editor can show: `text` replaces `[start, end)`, which lies on the cursor's line."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Suggestion:
    """`text` for `place`, which was the hole `hole`. `invoked`: the user asked for it."""

    id: str
    place: Anchor
    text: str
    hole: Span
    confidence: float = 1.0
    invoked: bool = False
    shown_from: int | None = None
    """From which character of `text` on it was last shown to the user; None: never yet."""

    def after(self, change: Change) -> "Suggestion | None":
        """The same suggestion after a change of the text; None where that made it useless."""
        found = self.place.after(change)
        if found is None:
            return None
        place, taken_back = found
        shown_from = None if self.shown_from is None else self.shown_from + len(taken_back)
        text = taken_back + self.text  # made anew by hand: of this there is much with each key, and `replace` is slow
        return Suggestion(self.id, place, text, self.hole, self.confidence, self.invoked, shown_from)

    def applied(self, text: str) -> str:
        """The whole text with the suggestion in it."""
        return text[: self.place.start] + self.text + text[self.place.end :]

    def at(self, text: str, cursor: Cursor) -> Shown | None:
        """What to show at the cursor in `text`; None where the suggestion does not go on from what stands there."""
        if cursor.selected is not None:
            return self._beyond(text, *cursor.selected)
        place, offset = self.place, cursor.offset
        if not place.start <= offset <= place.end:
            return None
        typed, behind = text[place.start : offset], text[offset : place.end]
        if (typed, behind) == (place.head, place.tail):  # as when it was made, whatever stands there
            return Shown(place.start, place.end, self.text) if _on_one_line(typed + behind) else None
        if not self.continues(typed):
            return None
        done = max(line_start(text, offset) - place.start, 0)
        if self._fits_behind(typed, behind):
            return Shown(place.start + done, place.end, self.text[done:])
        left = len(self.text) - len(behind)
        if _is_line_end(behind) and left > len(typed) and self.text.endswith(behind):  # Enter between two braces
            return Shown(place.start + done, offset, self.text[done:left])
        return None

    def continues(self, typed: str) -> bool:
        """Whether there is more of the suggestion than `typed`, which it begins with."""
        return len(typed) < len(self.text) and self.text.startswith(typed)

    def _fits_behind(self, typed: str, behind: str) -> bool:
        """Whether only what stood behind the cursor still does, and what an editor closed by itself."""
        place = self.place
        if not _on_one_line(behind):
            return False
        if len(typed) < place.cursor:  # the cursor has moved back, or something in front was deleted
            return behind == place.tail
        if not behind.endswith(place.tail):
            return False
        return are_closed_by_editor(typed[place.cursor :], behind[: len(behind) - len(place.tail)])

    def _beyond(self, text: str, start: int, end: int, selected: str) -> Shown | None:
        """What extends the selected item, in the range that the item replaces."""
        place = self.place
        if not place.start <= start <= end <= place.end or not _on_one_line(text[place.start : place.end]):
            return None
        typed, behind = text[place.start : start] + selected, text[end : place.end]
        if not self.continues(typed) or not place.tail.endswith(behind):
            return None
        return Shown(start, place.end, self.text[start - place.start :])


def _is_line_end(text: str) -> bool:
    """Whether this is the end of a line and at most the indentation of the next."""
    return not _on_one_line(text) and text.isspace()


def _on_one_line(text: str) -> bool:
    return "\n" not in text and "\r" not in text
