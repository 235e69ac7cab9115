"""What the user has turned down: not shown again by itself. What the user asks for is shown whatever was turned down.

Turned down is what the editor says was (`infill/didReject`), and what was shown and then typed over by something else.
A suggestion that merely vanished is not: editors tell no Escape from a cursor that moved, and a suggestion that never
comes back would annoy more than one that comes twice. Nor is one that a slip of a key disagreed with.
"""

from lsp_server.documents.change import Change
from lsp_server.inline.suggestion import Cursor, Suggestion

KEPT = 16
SLIP_CHARACTERS = 2
"""So many characters that disagree may be a slip of a key; more of them are meant."""
_NEAR_CHARACTERS = 100
"""How far in front of the end of what was inserted the cursor may stand."""


class Rejected:
    """The suggestions that were turned down lately, each at its place in the current text."""

    def __init__(self) -> None:
        self._suggestions: list[Suggestion] = []

    def add(self, suggestion: Suggestion) -> None:
        """`suggestion` was turned down."""
        self._suggestions = [suggestion, *self._suggestions][:KEPT]

    def forget(self, suggestion: Suggestion, text: str) -> None:
        """The user has asked for it after all."""
        self._suggestions = [other for other in self._suggestions if not _same(suggestion, other, text)]

    def changed(self, change: Change) -> None:
        """The text has changed."""
        moved = (suggestion.after(change) for suggestion in self._suggestions)
        self._suggestions = [suggestion for suggestion in moved if suggestion is not None]

    def holds(self, suggestion: Suggestion, text: str) -> bool:
        """Whether `suggestion` would make of `text` what one that was turned down would have."""
        return any(_same(suggestion, other, text) for other in self._suggestions)


def _same(one: Suggestion, other: Suggestion, text: str) -> bool:
    """Whether two suggestions make the same of `text`."""
    first, last = sorted((one.place, other.place), key=lambda place: place.start)
    if first.end < last.start:
        return False
    start, end = first.start, max(first.end, last.end)
    return _within(one, text, start, end) == _within(other, text, start, end)


def _within(suggestion: Suggestion, text: str, start: int, end: int) -> str:
    """What `[start, end)` of `text` becomes."""
    return text[start : suggestion.place.start] + suggestion.text + text[suggestion.place.end : end]


def is_typed_over(suggestion: Suggestion, change: Change, text: str) -> bool:
    """Whether `change`, which made `text`, leaves no doubt that the user wants something else than `suggestion`."""
    place = suggestion.place
    end = change.start + len(change.added)
    if not change.added or not place.start <= change.start <= end <= place.end:
        return False
    typed = text[place.start : end]
    pairs = enumerate(zip(typed, suggestion.text, strict=False))
    differs_at = next((at for at, (one, other) in pairs if one != other), None)
    if differs_at is None or len(typed) - differs_at <= SLIP_CHARACTERS:
        return False
    near = range(max(change.start, end - _NEAR_CHARACTERS), end + 1)
    return not any(suggestion.at(text, Cursor(offset)) for offset in near)  # the editor may have closed a bracket
