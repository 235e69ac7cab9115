"""The known suggestions of a document: those to show again, and those that the user rejected."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from lsp_server.documents.change import TextChange, minimal_change
from lsp_server.inline.anchor import Cursor
from lsp_server.inline.request import InlineRequest
from lsp_server.inline.suggestion import GhostText, ShownSuggestions, Suggestion

MAX_SUGGESTIONS = 24
MIN_PASTE_CHARACTERS = 3
"""A shorter change may be typing: editors batch keystrokes."""
_MAX_OLD_TEXTS = 100
"""The number of earlier texts to recognise."""
MAX_REJECTED = 16
MAX_TYPO_CHARACTERS = 2
"""This many wrong characters may be a typing slip; more are intended."""
_NEAR_CHARACTERS = 100
"""How far before the end of an insertion to look for the cursor."""


class SuggestionHistory:
    """The suggestions to show again, newest first, and the rejected ones, which reappear only on request.

    A suggestion is rejected if the editor says so, or if the user saw it and typed something else.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.is_after_undo = False
        """Whether the last change undid more than one character or white space."""
        self._suggestions: list[Suggestion] = []
        self._rejected: list[Suggestion] = []
        self._old_hashes = deque([hash(text)], maxlen=_MAX_OLD_TEXTS)

    def changed(self, changes: Sequence[TextChange], text: str) -> list[Suggestion]:
        """Applies successive `changes`, which led to `text`. Returns the suggestions that the user typed over."""
        self.text = text
        for change in changes:
            self._rejected = _after_change(self._rejected, change)
            self._suggestions = _after_change(self._suggestions, change)
        shown_suggestions = [item for item in self._suggestions if item.shown_from is not None]
        placed = _changes_still_in_text(changes, text) if shown_suggestions else []
        typed_over = [
            item for item in shown_suggestions if any(shows_rejection(item, change, text) for change in placed)
        ]
        for suggestion in typed_over:
            self.reject(suggestion.id)
        is_back = hash(text) in self._old_hashes and hash(text) != self._old_hashes[-1]  # else a slip
        parts = (part for change in changes for part in (change.removed, change.added))
        self.is_after_undo = is_back and any(len(part.strip()) > 1 for part in parts)
        self._old_hashes.append(hash(text))
        return typed_over

    def pasted_suggestion(self, changes: Sequence[TextChange]) -> Suggestion | None:
        """The newest shown suggestion that `changes` inserted in one go, for editors that report no acceptance."""
        if all(len(minimal_change(item.removed, item.added).added) < MIN_PASTE_CHARACTERS for item in changes):
            return None
        shown_suggestions = (item for item in self._suggestions if item.shown_from is not None)
        return next(
            (item for item in shown_suggestions if self.text[item.anchor.start : item.anchor.end] == item.text), None
        )

    def is_shown(self, computation: str) -> bool:
        """Whether any result of a computation was shown, and neither rejected nor lost since."""
        return any(item.computation_id == computation and item.shown_from is not None for item in self._suggestions)

    def add(self, suggestions: Sequence[Suggestion]) -> None:
        self._suggestions = [*suggestions, *self._suggestions][:MAX_SUGGESTIONS]

    def get(self, suggestion_id: str) -> Suggestion | None:
        """The suggestion with this id, with its current range; None if unknown."""
        return next((item for item in self._suggestions if item.id == suggestion_id), None)

    def insert_refined(self, requested: Suggestion, new_id: str, text: str) -> bool:
        """Puts `text` ahead of the suggestion `requested`; False if that is gone or has changed since."""
        current = self.get(requested.id)
        if current is None or not current.anchor.is_fresh(self.text):
            return False
        text = current.text.removesuffix(requested.text) + text
        refined = replace(current, id=new_id, text=text, invoked=True, shown_from=None, is_refined=True)
        if not all(item.continues(item.typed_part(self.text)) for item in (refined, current)):
            return False
        self.add([refined])
        return True

    def reject(self, suggestion_id: str) -> None:
        if suggestion := self.get(suggestion_id):
            self._rejected = [suggestion, *self._rejected][:MAX_REJECTED]
            self._suggestions = [item for item in self._suggestions if item is not suggestion]

    def suggestions_for(self, request: InlineRequest) -> ShownSuggestions:
        """The distinct suggestions for the request's cursor, newest first, limited to `budget.candidates`.

        An automatic request skips rejected ones. If the user has seen more of a text, or invoked completion, automatic
        ones that are only the start of another one are left out.
        """
        cursor = request.cursor
        matches: dict[GhostText, Suggestion] = {}
        for suggestion in self._suggestions:
            ghost_text = suggestion.ghost_text(self.text, cursor)
            is_rejected = any(_have_same_result(suggestion, rejected, self.text) for rejected in self._rejected)
            if ghost_text is not None and (request.invoked or not is_rejected):
                if request.wants_empty and cursor.selected is None:
                    ghost_text = ghost_text.with_empty_range(self.text, cursor.offset)
                matches.setdefault(ghost_text, suggestion)
        longer = [text for text, item in matches.items() if request.invoked or item.shown_from is not None]
        whole = (text for text, item in matches.items() if item.invoked or not any(map(text.is_start_of, longer)))
        return [(matches[text], text) for text in whole][: request.budget.candidates]

    def mark_shown(self, suggestions: ShownSuggestions, *, invoked: bool) -> None:
        """Marks these as shown; an explicitly requested one is no longer rejected."""
        starts = {suggestion.id: ghost_text.start - suggestion.anchor.start for suggestion, ghost_text in suggestions}
        self._suggestions = [
            replace(item, shown_from=starts[item.id]) if item.id in starts else item for item in self._suggestions
        ]
        for suggestion, _ in suggestions if invoked else ():
            self._rejected = [
                rejected for rejected in self._rejected if not _have_same_result(suggestion, rejected, self.text)
            ]


def _changes_still_in_text(changes: Sequence[TextChange], text: str) -> list[TextChange]:
    """The changes whose added text is still in `text`, to which they led, each with its current offset there."""
    placed: list[TextChange] = []
    for change in changes:
        placed = [replace(item, start=change.move_offset(item.start)) for item in placed] + [change]
    return [item for item in placed if text.startswith(item.added, item.start)]


def _after_change(suggestions: Sequence[Suggestion], change: TextChange) -> list[Suggestion]:
    moved = (suggestion.after_change(change) for suggestion in suggestions)
    return [suggestion for suggestion in moved if suggestion is not None]


def _have_same_result(a: Suggestion, b: Suggestion, text: str) -> bool:
    first, last = sorted((a.anchor, b.anchor), key=lambda anchor: anchor.start)
    if first.end < last.start:
        return False
    start = first.start
    end = max(first.end, last.end)
    return _result_within(a, text, start, end) == _result_within(b, text, start, end)


def _result_within(suggestion: Suggestion, text: str, start: int, end: int) -> str:
    return text[start : suggestion.anchor.start] + suggestion.text + text[suggestion.anchor.end : end]


def shows_rejection(suggestion: Suggestion, change: TextChange, text: str) -> bool:
    """Whether `change`, which led to `text`, clearly shows that the user wants something other than `suggestion`."""
    anchor = suggestion.anchor
    end = change.start + len(change.added)
    if not change.added or not anchor.start <= change.start <= end <= anchor.end or not anchor.is_fresh(text):
        return False
    typed = text[anchor.start : end]
    same = minimal_change(suggestion.text, typed).start
    if same == len(suggestion.text) or len(typed) - same <= MAX_TYPO_CHARACTERS:
        return False
    near = range(max(change.start, end - _NEAR_CHARACTERS), end + 1)
    return not any(
        suggestion.ghost_text(text, Cursor(offset)) for offset in near
    )  # the editor may have closed a bracket
