"""Next edits: the edits that are offered to the user after a change."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from lsp_server.documents.change import TextChange, minimal_change
from lsp_server.syntax.lines import is_word_char

MAX_OFFERS = 200
"""The most edits after one change; for more, a user has better tools."""


@dataclass(frozen=True)
class NextEdit:
    """Replaces [start, end) of a document by `text`. `why` is shown to the user. Where `score` is below 1, the rules
    are not certain and a model decides.
    """

    start: int
    end: int
    text: str
    why: str = field(default="", compare=False)
    score: float = field(default=1.0, compare=False)

    def as_text_change(self, text: str) -> TextChange:
        return TextChange(self.start, text[self.start : self.end], self.text)

    def after_change(self, change: TextChange) -> "NextEdit | None":
        """Returns the same edit after a change; None if the change touched its range."""
        if change.start < self.end and self.start < change.end:
            return None
        shift = change.shift if change.end <= self.start else 0
        return replace(self, start=self.start + shift, end=self.end + shift)


def trimmed_edit(start: int, old: str, new: str, why: str = "") -> NextEdit:
    """Returns the edit that replaces `old` at `start`, without the whole words that both texts share at their ends."""
    prefix = minimal_change(old, new).start
    while (
        prefix and is_word_char(old[prefix - 1]) and any(is_word_char(text[prefix : prefix + 1]) for text in (old, new))
    ):
        prefix -= 1
    max_suffix = min(len(old), len(new)) - prefix
    suffix = next((n for n in range(max_suffix) if old[-1 - n] != new[-1 - n]), max_suffix)
    while (
        suffix
        and is_word_char(old[-suffix])
        and any(is_word_char(text[prefix : len(text) - suffix][-1:]) for text in (old, new))
    ):
        suffix -= 1
    return NextEdit(start + prefix, start + len(old) - suffix, new[prefix : len(new) - suffix], why)


def without_overlaps(edits: Iterable[NextEdit]) -> list[NextEdit]:
    """Returns the edits in order. Where several touch, keeps the widest."""
    chosen: list[NextEdit] = []
    for edit in sorted(islice(edits, MAX_OFFERS), key=lambda edit: edit.start - edit.end):
        if all(edit.end < other.start or other.end < edit.start for other in chosen):
            chosen.append(edit)
    return sorted(chosen, key=lambda edit: edit.start)


def nearest_edit(edits: Sequence[NextEdit], cursor: int) -> NextEdit | None:
    return min(edits, key=lambda edit: (abs(edit.start - cursor), edit.start), default=None)
