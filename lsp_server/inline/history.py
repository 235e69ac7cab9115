"""The suggestions known for one document, the rejected ones, and undo. Must see every change of the text."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from lsp_server.documents.change import Change, difference
from lsp_server.inline.suggestion import Cursor, GhostText, Suggestion

KEPT = 24
AT_ONCE_CHARACTERS = 3
"""A shorter change may be typing: editors batch keystrokes."""
_KEPT_TEXTS = 100
"""The number of earlier texts to recognise."""
KEPT_REJECTED = 16
SLIP_CHARACTERS = 2
"""This many wrong characters may be a typing slip; more are intended."""
_NEAR_CHARACTERS = 100
"""How far before the end of an insertion to look for the cursor."""


class SuggestionHistory:
    """The suggestions to show again, newest first, and the rejected ones, which reappear only on request.

    A rejected one is reported by the editor, or was seen and typed over. One that merely vanished is not rejected.
    """

    def __init__(self, text: str) -> None:
        self._suggestions: list[Suggestion] = []
        self._rejected: list[Suggestion] = []
        self._undo = UndoDetector(text)

    @property
    def after_undo(self) -> bool:
        """Whether the last change was an undo or a redo."""
        return self._undo.undone

    def changed(self, changes: Sequence[Change], text: str) -> list[Suggestion]:
        """`changes`, one after the other, led to `text`. Returns the suggestions that they typed over."""
        for change in changes:
            self._rejected = _moved(self._rejected, change)
            self._suggestions = _moved(self._suggestions, change)
        shown = [each for each in self._suggestions if each.shown_from is not None and changes]
        placed = _placed(changes, text) if shown else []
        typed_over = [each for each in shown if any(is_typed_over(each, change, text) for change in placed)]
        for suggestion in typed_over:
            self.reject(suggestion.id)
        self._undo.changed(changes, text)
        return typed_over

    def put_in(self, changes: Sequence[Change], text: str) -> Suggestion | None:
        """The newest shown suggestion that `changes` inserted in one go, for editors that report no acceptance."""
        if all(len(difference(each.removed, each.added).added) < AT_ONCE_CHARACTERS for each in changes):
            return None
        shown = (each for each in self._suggestions if each.shown_from is not None)
        return next((each for each in shown if text[each.anchor.start : each.anchor.end] == each.text), None)

    def is_shown(self, computation: str) -> bool:
        """Whether any result of a computation was shown, and neither rejected nor lost since."""
        return any(each.computation == computation and each.shown_from is not None for each in self._suggestions)

    def add(self, suggestions: Sequence[Suggestion]) -> None:
        """Adds computed suggestions, best first."""
        self._suggestions = [*suggestions, *self._suggestions][:KEPT]

    def get(self, suggestion_id: str) -> Suggestion | None:
        """The suggestion with this id, in its current place; None if unknown."""
        return next((each for each in self._suggestions if each.id == suggestion_id), None)

    def refine(self, asked: Suggestion, new_id: str, text: str, confidence: float, document_text: str) -> bool:
        """Shows `text` ahead of `asked`, the suggestion when it was requested; False if either lost its place."""
        found = self.get(asked.id)
        if found is None or not found.anchor.is_fresh(document_text):
            return False
        text = found.text.removesuffix(asked.text) + text
        refined = replace(
            found, id=new_id, text=text, confidence=confidence, invoked=True, shown_from=None, is_refined=True
        )
        if not all(each.continues(each.typed(document_text)) for each in (refined, found)):
            return False
        self.add([refined])
        return True

    def reject(self, suggestion_id: str) -> None:
        """Rejects this suggestion."""
        if suggestion := self.get(suggestion_id):
            self._rejected = [suggestion, *self._rejected][:KEPT_REJECTED]
            self._suggestions = [each for each in self._suggestions if each is not suggestion]

    def find(
        self, text: str, cursor: Cursor, *, invoked: bool, floor: float = 0.0, limit: int = 8
    ) -> list[tuple[Suggestion, GhostText]]:
        """The distinct suggestions for the cursor in the current text, newest first, at most `limit`.

        An automatic request skips rejected ones, and those below `floor` unless the user has already seen them.
        """
        found: dict[GhostText, Suggestion] = {}
        for suggestion in self._suggestions:
            shown = suggestion.at(text, cursor)
            if shown is not None and (invoked or not self._is_unwanted(suggestion, text, floor)):
                found.setdefault(shown, suggestion)
        return [(suggestion, shown) for shown, suggestion in found.items()][:limit]

    def show(self, found: Sequence[tuple[Suggestion, GhostText]], text: str, *, invoked: bool) -> None:
        """Marks these as shown; an explicitly requested one is no longer rejected."""
        starts = {suggestion.id: shown.start - suggestion.anchor.start for suggestion, shown in found}
        self._suggestions = [
            replace(each, shown_from=starts[each.id]) if each.id in starts else each for each in self._suggestions
        ]
        for suggestion, _ in found if invoked else ():
            self._rejected = [other for other in self._rejected if not _same(suggestion, other, text)]

    def _is_unwanted(self, suggestion: Suggestion, text: str, floor: float) -> bool:
        unsure = suggestion.confidence < floor and suggestion.shown_from is None and not suggestion.is_refined
        return unsure or any(_same(suggestion, other, text) for other in self._rejected)


class UndoDetector:
    """Detects, by hashes of earlier texts, that the user has just undone more than a character or white space."""

    def __init__(self, text: str) -> None:
        self._texts: OrderedDict[int, None] = OrderedDict({hash(text): None})
        self.undone = False

    def changed(self, changes: Sequence[Change], text: str) -> None:
        """`changes` came together and led to `text`. Each counts by itself; if they cancel out, it was a slip."""
        key = hash(text)
        is_back = key in self._texts and key != next(reversed(self._texts))
        self.undone = is_back and any(
            len(each.strip()) > 1 for change in changes for each in (change.removed, change.added)
        )
        self._texts[key] = None
        self._texts.move_to_end(key)
        if len(self._texts) > _KEPT_TEXTS:
            self._texts.popitem(last=False)


def _placed(changes: Sequence[Change], text: str) -> list[Change]:
    """The changes whose added text still stands in `text`, to which they led, each at its place there."""
    placed: list[Change] = []
    for change in changes:
        placed = [replace(each, start=change.move(each.start)) for each in placed] + [change]
    return [each for each in placed if text.startswith(each.added, each.start)]


def _moved(suggestions: Sequence[Suggestion], change: Change) -> list[Suggestion]:
    moved = (suggestion.after(change) for suggestion in suggestions)
    return [suggestion for suggestion in moved if suggestion is not None]


def _same(one: Suggestion, other: Suggestion, text: str) -> bool:
    """Whether two suggestions give the same result."""
    first, last = sorted((one.anchor, other.anchor), key=lambda anchor: anchor.start)
    if first.end < last.start:
        return False
    start = first.start
    end = max(first.end, last.end)
    return _within(one, text, start, end) == _within(other, text, start, end)


def _within(suggestion: Suggestion, text: str, start: int, end: int) -> str:
    """The result for `[start, end)` of `text`."""
    return text[start : suggestion.anchor.start] + suggestion.text + text[suggestion.anchor.end : end]


def is_typed_over(suggestion: Suggestion, change: Change, text: str) -> bool:
    """Whether `change`, which led to `text`, clearly shows that the user wants something other than `suggestion`."""
    anchor = suggestion.anchor
    end = change.start + len(change.added)
    if not change.added or not anchor.start <= change.start <= end <= anchor.end or not anchor.is_fresh(text):
        return False
    typed = text[anchor.start : end]
    pairs = enumerate(zip(typed, suggestion.text, strict=False))
    differs_at = next((at for at, (one, other) in pairs if one != other), None)
    if differs_at is None or len(typed) - differs_at <= SLIP_CHARACTERS:
        return False
    near = range(max(change.start, end - _NEAR_CHARACTERS), end + 1)
    return not any(suggestion.at(text, Cursor(offset)) for offset in near)  # the editor may have closed a bracket
