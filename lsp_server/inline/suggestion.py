"""A suggestion, and the part of it that is not typed yet. Its range includes what the user types in it."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference.ending import CLOSING, open_quote, quote_of, unpaired_in
from lsp_server.documents.change import TextChange
from lsp_server.features import AcceptedEvent
from lsp_server.holes import HoleSpan
from lsp_server.inline.anchor import Anchor, Cursor
from lsp_server.syntax.lines import is_one_line, line_start


@dataclass(frozen=True)
class GhostText:
    """A suggestion as an editor can show it: `text` replaces `[start, end)`, which is on the cursor's line."""

    start: int
    end: int
    text: str

    def is_start_of(self, other: "GhostText") -> bool:
        """Whether this is only the start of `other` in the same range."""
        is_start = self.text != other.text and other.text.startswith(self.text)
        return is_start and (self.start, self.end) == (other.start, other.end)

    def with_empty_range(self, text: str, cursor: int) -> "GhostText":
        """The same with an empty range at the cursor in `text`, if it replaces nothing after the cursor."""
        typed, suffix = text[self.start : cursor], text[cursor : self.end]
        added = self.text[len(typed) : len(self.text) - len(suffix)]
        closes = suffix and any(unpaired_in(added, quote_of(suffix)))  # it ends what is inserted
        is_same = closes or not added or typed + added + suffix != self.text
        return self if is_same else GhostText(cursor, cursor, added)


@dataclass(frozen=True)
class Suggestion:
    """`text` for the range `anchor`, which was the hole `hole`. `invoked`: the user asked for it."""

    id: str
    anchor: Anchor
    text: str
    hole: HoleSpan
    invoked: bool = False
    shown_from: int | None = None
    """The user last saw `text` from this character on; None if it was never shown."""
    is_refined: bool = False
    """Whether the partner wrote it to replace another one."""

    @property
    def computation_id(self) -> str:
        return self.id.rpartition(".")[0]

    def accepted_event(self, length: int) -> AcceptedEvent:
        """Builds the event for accepting the first `length` characters, which are now in the text."""
        return AcceptedEvent(self.computation_id, length >= len(self.text))

    def after_change(self, change: TextChange) -> "Suggestion | None":
        """The suggestion at its new place; None if that is lost. Compares its text with nothing that was typed."""
        anchor = self.anchor.after_change(change)
        if anchor is None:
            return None
        taken_back = anchor.original[: len(anchor.original) - len(self.anchor.original)]
        shown_from = None if self.shown_from is None else self.shown_from + len(taken_back)
        text = taken_back + self.text  # built by hand: each keystroke builds many, and `replace` is slow
        return Suggestion(self.id, anchor, text, self.hole, self.invoked, shown_from, self.is_refined)

    def ghost_text(self, text: str, cursor: Cursor) -> GhostText | None:
        """What to show at the cursor in `text`; None if it is stale or does not continue the text there."""
        anchor = self.anchor
        offset = cursor.offset
        selected = cursor.selected
        if (selected is None and not anchor.start <= offset <= anchor.end) or not anchor.is_fresh(text):
            return None
        if selected is not None:
            return self._extending_selected(text, *selected)
        typed = text[anchor.start : offset]
        suffix = text[offset : anchor.end]
        if (typed, suffix) == (anchor.typed_prefix, anchor.replaced_suffix):  # nothing was typed in the range
            return GhostText(anchor.start, anchor.end, self.text) if is_one_line(typed + suffix) else None
        if not self.continues(typed):
            return None
        done = max(line_start(text, offset) - anchor.start, 0)
        if self._fits_suffix(typed, suffix):
            return GhostText(anchor.start + done, anchor.end, self.text[done:])
        end = len(self.text) - len(suffix)
        is_line_end = suffix.isspace() and not is_one_line(suffix)  # Enter between two braces
        if is_line_end and end > len(typed) and self.text.endswith(suffix):
            return GhostText(anchor.start + done, offset, self.text[done:end])
        return None

    def continues(self, typed: str) -> bool:
        """Whether the suggestion begins with `typed` and has more to add."""
        return len(typed) < len(self.text) and self.text.startswith(typed)

    def typed_part(self, text: str) -> str:
        """The longest start of the text that was typed in the range, without brackets that the editor closed."""
        current = text[self.anchor.start : self.anchor.end]
        for end in range(min(len(current), len(self.text)), self.anchor.cursor, -1):
            if self.continues(current[:end]) and self._fits_suffix(current[:end], current[end:]):
                return current[:end]
        return current.removesuffix(self.anchor.replaced_suffix)

    def _fits_suffix(self, typed: str, suffix: str) -> bool:
        """Whether `suffix`, the text after the cursor, is the original text plus what an editor closed."""
        if not is_one_line(suffix):
            return False
        added, replaced = typed[self.anchor.cursor :], self.anchor.replaced_suffix
        over = [(i, j) for i, new in enumerate(added) for j, old in enumerate(replaced[: len(added)]) if new == old]
        parts = [(added, replaced), *((added[i + 1 :], replaced[j + 1 :]) for i, j in over)]
        return any(suffix.endswith(rest) and closes(part, suffix.removesuffix(rest)) for part, rest in parts)

    def _extending_selected(self, text: str, start: int, end: int, selected: str) -> GhostText | None:
        """The extension of the selected item, in the item's range."""
        anchor = self.anchor
        if not anchor.start <= start <= end <= anchor.end or not is_one_line(text, anchor.start, anchor.end):
            return None
        typed = text[anchor.start : start] + selected
        if not self.continues(typed) or not anchor.replaced_suffix.endswith(text[end : anchor.end]):
            return None
        return GhostText(start, anchor.end, self.text[start - anchor.start :])


def closes(typed: str, suffix: str) -> bool:
    """Whether `suffix` is empty, or what an editor adds behind `typed`: it closes brackets and quotes opened there."""
    whole = typed.rstrip("\\") + suffix
    return not (suffix and (suffix.strip(CLOSING) or open_quote(whole) or unpaired_in(whole)[0]))


ShownSuggestions = Sequence[tuple[Suggestion, GhostText]]
"""Suggestions, and how to show each."""


def offers_choice(suggestions: ShownSuggestions) -> bool:
    """True if the user invoked completion and there are several suggestions, such as a draft and its refinement."""
    is_refined = bool(suggestions) and suggestions[0][0].is_refined
    return is_refined or (len(suggestions) > 1 and all(suggestion.invoked for suggestion, _ in suggestions))
