"""The suggestions that the user has rejected: they do not appear again by themselves, only when the user asks.

A suggestion is rejected when the editor says so (`infill/didReject`), or when the user sees it and types something else
over it. One that merely vanished is not: no editor tells Escape from a cursor that moved, and a suggestion that never
comes back would annoy more than one that comes twice. Nor does a slip of a key reject anything.
"""

from lsp_server.documents.change import Change
from lsp_server.inline.suggestion import Cursor, Suggestion

KEPT = 16
SLIP_CHARACTERS = 2
"""So many characters that disagree may be a slip of a key; more of them are meant."""
_NEAR_CHARACTERS = 100
"""How far in front of the end of an insertion to look for the cursor."""


class RejectedSuggestions:
    """The suggestions rejected lately, each at its range of the current text."""

    def __init__(self) -> None:
        self._suggestions: list[Suggestion] = []

    def add(self, suggestion: Suggestion) -> None:
        """Reject `suggestion`."""
        self._suggestions = [suggestion, *self._suggestions][:KEPT]

    def forget(self, suggestion: Suggestion, text: str) -> None:
        """The user has asked for it after all."""
        self._suggestions = [other for other in self._suggestions if not _same(suggestion, other, text)]

    def changed(self, change: Change) -> None:
        """The text has changed."""
        moved = (suggestion.after(change) for suggestion in self._suggestions)
        self._suggestions = [suggestion for suggestion in moved if suggestion is not None]

    def holds(self, suggestion: Suggestion, text: str) -> bool:
        """Whether `suggestion` turns `text` into the same as a rejected one does."""
        return any(_same(suggestion, other, text) for other in self._suggestions)


def _same(one: Suggestion, other: Suggestion, text: str) -> bool:
    """Whether two suggestions turn `text` into the same."""
    first, last = sorted((one.anchor, other.anchor), key=lambda anchor: anchor.start)
    if first.end < last.start:
        return False
    start, end = first.start, max(first.end, last.end)
    return _within(one, text, start, end) == _within(other, text, start, end)


def _within(suggestion: Suggestion, text: str, start: int, end: int) -> str:
    """What `[start, end)` of `text` becomes."""
    return text[start : suggestion.anchor.start] + suggestion.text + text[suggestion.anchor.end : end]


def is_typed_over(suggestion: Suggestion, change: Change, text: str) -> bool:
    """Whether `change`, which led to `text`, leaves no doubt that the user wants something else than `suggestion`."""
    anchor = suggestion.anchor
    end = change.start + len(change.added)
    if not change.added or not anchor.start <= change.start <= end <= anchor.end:
        return False
    typed = text[anchor.start : end]
    pairs = enumerate(zip(typed, suggestion.text, strict=False))
    differs_at = next((at for at, (one, other) in pairs if one != other), None)
    if differs_at is None or len(typed) - differs_at <= SLIP_CHARACTERS:
        return False
    near = range(max(change.start, end - _NEAR_CHARACTERS), end + 1)
    return not any(suggestion.at(text, Cursor(offset)) for offset in near)  # the editor may have closed a bracket
