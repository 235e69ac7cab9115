"""The suggestions known for one document: which may be shown again, which were rejected, whether the user has undone.

Mutable; it must be told of every change of the text.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from lsp_server.documents.change import Change, difference
from lsp_server.inline.rejected import RejectedSuggestions, is_typed_over
from lsp_server.inline.suggestion import Cursor, Shown, Suggestion

KEPT = 24
AT_ONCE_CHARACTERS = 3
"""Fewer in one change may be typed: editors gather what comes within a moment."""
_KEPT_TEXTS = 100
"""How many earlier texts are recognised."""


class SuggestionHistory:
    """The suggestions that may be shown again, newest first, and those that may not."""

    def __init__(self, text: str) -> None:
        self._suggestions: list[Suggestion] = []
        self._rejected = RejectedSuggestions()
        self._undo = UndoDetector(text)

    @property
    def after_undo(self) -> bool:
        """Whether the last change was an undo or a redo."""
        return self._undo.undone

    def changed(self, changes: Sequence[Change], text: str) -> list[Suggestion]:
        """`changes`, one after the other, led to `text`. Returns the suggestions that were typed over with that."""
        for change in changes:
            self._rejected.changed(change)
            moved = (suggestion.after(change) for suggestion in self._suggestions)
            self._suggestions = [suggestion for suggestion in moved if suggestion is not None]
        shown = [each for each in self._suggestions if each.shown_from is not None and changes]
        typed_over = [each for each in shown if is_typed_over(each, changes[-1], text)]
        for suggestion in typed_over:
            self.reject(suggestion.id)
        self._undo.changed(changes, text)
        return typed_over

    def put_in(self, changes: Sequence[Change], text: str) -> Suggestion | None:
        """The newest suggestion shown that `changes`, which led to `text`, have put in at once; None where none has.

        Not every editor says that one was accepted. One that is typed to its end, letter by letter, was not.
        """
        if not changes or len(difference(changes[-1].removed, changes[-1].added).added) < AT_ONCE_CHARACTERS:
            return None
        shown = (each for each in self._suggestions if each.shown_from is not None)
        return next((each for each in shown if text[each.anchor.start : each.anchor.end] == each.text), None)

    def is_shown(self, computation: str) -> bool:
        """Whether anything that a computation found was shown, and neither rejected nor lost since."""
        return any(each.computation == computation and each.shown_from is not None for each in self._suggestions)

    def add(self, suggestions: Sequence[Suggestion]) -> None:
        """Keep suggestions that were computed, best first."""
        self._suggestions = [*suggestions, *self._suggestions][:KEPT]

    def get(self, suggestion_id: str) -> Suggestion | None:
        """The suggestion of this id as it stands now; None where it is no longer known."""
        return next((each for each in self._suggestions if each.id == suggestion_id), None)

    def refine(self, asked: Suggestion, new_id: str, text: str, confidence: float, document_text: str) -> bool:
        """From now on `text` is shown before a suggestion; False where that, or its place, is gone.

        `asked` is the suggestion as it stood when `text` was asked for: what was deleted in front of it since then
        belongs to both.
        """
        found = self.get(asked.id)
        if found is None:
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
        """The user does not want this one."""
        if suggestion := self.get(suggestion_id):
            self._rejected.add(suggestion)
            self._suggestions = [each for each in self._suggestions if each is not suggestion]

    def accept(self, suggestion_id: str) -> None:
        """The whole of it was put in. Should the user take it out again, it does not come back by itself."""
        self.reject(suggestion_id)

    def find(
        self, text: str, cursor: Cursor, *, invoked: bool, floor: float = 0.0, limit: int = 8
    ) -> list[tuple[Suggestion, Shown]]:
        """What can be shown at the cursor in the current text, newest first and each once: at most `limit`.

        Rejected suggestions do not appear by themselves, nor do those with a confidence below `floor`, unless the user
        has seen them before: what is on the screen does not vanish while it is typed.
        """
        found: dict[Shown, Suggestion] = {}
        for suggestion in self._suggestions:
            shown = suggestion.at(text, cursor)
            if shown is not None and (invoked or not self._is_unwanted(suggestion, text, floor)):
                found.setdefault(shown, suggestion)
        return [(suggestion, shown) for shown, suggestion in found.items()][:limit]

    def show(self, found: Sequence[tuple[Suggestion, Shown]], text: str, *, invoked: bool) -> None:
        """Mark these as shown; what the user asked for is no longer rejected."""
        starts = {suggestion.id: shown.start - suggestion.anchor.start for suggestion, shown in found}
        self._suggestions = [
            replace(each, shown_from=starts[each.id]) if each.id in starts else each for each in self._suggestions
        ]
        for suggestion, _ in found if invoked else ():
            self._rejected.forget(suggestion, text)

    def _is_unwanted(self, suggestion: Suggestion, text: str, floor: float) -> bool:
        unsure = suggestion.confidence < floor and suggestion.shown_from is None and not suggestion.is_refined
        return unsure or self._rejected.holds(suggestion, text)


class UndoDetector:
    """Says whether the user has just undone something; then nothing appears by itself, least of all what was undone.

    It recognises earlier texts by their hashes. A single character typed or deleted never counts as an undo, for that
    would be every backspace. Nor does white space, which editors add and remove by the line.
    """

    def __init__(self, text: str) -> None:
        self._texts: OrderedDict[int, None] = OrderedDict({hash(text): None})
        self.undone = False

    def changed(self, changes: Sequence[Change], text: str) -> None:
        """`changes` came at once and led to `text`."""
        key = hash(text)
        characters = sum(max(len(change.removed.strip()), len(change.added.strip())) for change in changes)
        known = key in self._texts
        self.undone = known and characters > 1
        self._texts[key] = None
        self._texts.move_to_end(key)
        if len(self._texts) > _KEPT_TEXTS:
            self._texts.popitem(last=False)
