"""Decides which edits may be offered: none that adds invisible characters or syntax errors, or undoes a user's edit."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from inference.messages import HoleKind
from lsp_server.fill.postprocess import adds_invisible, count_errors, count_errors_with
from lsp_server.holes import HoleSpan
from lsp_server.next_edit.edits import NextEdit, without_overlaps
from lsp_server.next_edit.text_diff import TextDiff
from lsp_server.syntax.lines import is_word_char, line_end, line_start
from lsp_server.syntax.parsing import Source

_MAX_TRIALS = 16
"""The most edits to check one at a time, each with a parse of the file."""
NEAR_LINES = 12
"""How far apart edits of the same code may be, so that not half a file is marked."""


class EditValidator:
    """Judges edits of a source. `old_texts` are its texts before the user's last edits, newest first."""

    def __init__(self, source: Source, old_texts: Sequence[str] = ()) -> None:
        self._source = source
        self._diffs = [TextDiff(text, source.text) for text in old_texts]

    def edits_to_offer(self, edits: Iterable[NextEdit]) -> list[NextEdit]:
        """Returns the edits to offer: tries them all together, then the first few one by one."""
        fitting = [edit for edit in edits if not self.is_invisible(edit.text) and not self.undoes(edit)]
        together = without_overlaps(fitting)
        if len(together) == len(fitting) and not self.breaks_syntax(together):
            return fitting
        return [edit for edit in fitting[:_MAX_TRIALS] if not self.breaks_syntax([edit])]

    def is_invisible(self, text: str) -> bool:
        return adds_invisible(text, self._source.text)

    @cached_property
    def num_errors(self) -> int:
        """The number of syntax errors in the source; 0 without a tree."""
        return count_errors(self._source.tree) if self._source.tree else 0

    def errors_after(self, edits: Sequence[NextEdit]) -> int | None:
        """Returns the number of syntax errors after edits that are in order and apart; None if unknown."""
        spans = [HoleSpan(edit.start, edit.end, HoleKind.EXPRESSION) for edit in edits]
        return count_errors_with(self._source, spans, [edit.text for edit in edits])

    def breaks_syntax(self, edits: Sequence[NextEdit]) -> bool:
        """Whether edits add syntax errors. In a source that has some, another one may be far from its cause, so there
        edits that keep the brackets in balance are fine.
        """
        errors = self.errors_after(edits)
        if self._source.tree is None or (errors is not None and errors <= self.num_errors):
            return False
        text = self._source.text
        is_balanced = all(_balance(text[edit.start : edit.end]) == _balance(edit.text) for edit in edits)
        return errors is None or not (self.num_errors and is_balanced)

    def undoes(self, edit: NextEdit) -> bool:
        """Whether an edit brings back what the user removed: the text of its lines, most of what is new in them, or a
        name in place of its replacement.
        """
        text = self._source.text
        start = line_start(text, edit.start)
        end = line_end(text, edit.end)
        lines = text[start : edit.start] + edit.text + text[edit.end : end]
        added = set(lines_with_words(lines)) - self._lines
        for diff in self._diffs:
            if any(start <= hunk.start <= end and diff.old_lines(hunk) == lines for hunk in diff.changed_words):
                return True
            near = (hunk for hunk in diff.changed_words if self._is_near(edit, hunk.start, hunk.end))
            removed = {line for hunk in near for line in lines_with_words(diff.old_lines(hunk))}
            if 2 * len(added & removed) > len(added):
                return True
        user_replaced = _replaced_words(self._diffs[0]) if self._diffs else set()
        replaced = _replaced_words(TextDiff(text[start:end], lines)) if user_replaced else set()
        return any((new, old) in user_replaced and (old, new) not in user_replaced for old, new in replaced)

    @cached_property
    def _lines(self) -> set[str]:
        return set(lines_with_words(self._source.text))

    def _is_near(self, edit: NextEdit, start: int, end: int) -> bool:
        """Whether [start, end) is in the edit's lines, or not far from them."""
        text = self._source.text
        return max(text.count("\n", edit.end, start), text.count("\n", end, edit.start)) <= NEAR_LINES


def lines_with_words(text: str) -> list[str]:
    """Returns the lines that have a word in them, without their indentation."""
    return [line.strip() for line in text.splitlines() if any(map(is_word_char, line))]


def _balance(text: str) -> list[int]:
    return [text.count(bracket) for bracket in "()[]{}"]


def _replaced_words(diff: TextDiff) -> set[tuple[str, str]]:
    pairs = ((diff.old[hunk.old_start : hunk.old_end], diff.new[hunk.start : hunk.end]) for hunk in diff.changed_words)
    return {(old.strip(), new.strip()) for old, new in pairs if old.strip() and new.strip()}
