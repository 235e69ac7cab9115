"""The differences between two texts, by lines and by words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate

from inference.models.edit_prompts import LINE
from lsp_server.documents.change import minimal_change
from lsp_server.syntax.lines import line_end, line_start

_MAX_LINES = 500
"""The most lines between two changes to compare all with all, which takes quadratic time. Beyond that, frequent lines
are compared only next to rarer ones.
"""
_MAX_TOKENS = 1_500
WORD_OR_PUNCTUATION = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class DiffRange:
    """`old[old_start:old_end]` became `new[start:end]`: whole words or lines, or nothing."""

    old_start: int
    old_end: int
    start: int
    end: int


class TextDiff:
    """The differences between two texts, computed lazily."""

    def __init__(self, old: str, new: str) -> None:
        self.old = old
        self.new = new

    @cached_property
    def changed_words(self) -> tuple[DiffRange, ...]:
        return tuple(words for lines in self.changed_lines for words in self._words_in(lines))

    @cached_property
    def changed_lines(self) -> tuple[DiffRange, ...]:
        change = minimal_change(self.old, self.new)
        first = self.old.rfind("\n", 0, change.start) + 1
        tail = len(self.old) - (self.old.find("\n", change.end) + 1 or len(self.old))
        old_lines = LINE.findall(self.old[first : len(self.old) - tail])
        lines = LINE.findall(self.new[first : len(self.new) - tail])
        old_starts, starts = ([*accumulate(map(len, texts), initial=first)] for texts in (old_lines, lines))
        matcher = SequenceMatcher(None, old_lines, lines, autojunk=len(lines) > _MAX_LINES)
        return tuple(
            DiffRange(old_starts[i], old_starts[j], starts[k], starts[m])
            for tag, i, j, k, m in matcher.get_opcodes()
            if tag != "equal"
        )

    @cached_property
    def substituted_offsets(self) -> tuple[tuple[int, int], ...]:
        """The offsets of substituted words: in the old text and in the new one."""
        return tuple(offsets for words in self.changed_words for offsets in self._substituted_in(words))

    def has_new_text(self, start: int, end: int) -> bool:
        """Whether any of [start, end) of the new text is absent from the old one."""
        return any(words.start < end and start < words.end for words in self.changed_words)

    def added_lines(self, words: DiffRange) -> tuple[int, int] | None:
        """Returns the range of the whole lines that a difference adds; None if it does anything else."""
        start = line_start(self.new, words.start)
        end = line_end(self.new, words.end)
        is_whole = self.new[start:end].strip() == self.new[words.start : words.end].strip()
        return (start, end) if is_whole and words.old_start == words.old_end else None

    def old_lines(self, words: DiffRange) -> str:
        """Returns the whole lines of the old text that a difference touches."""
        return self.old[line_start(self.old, words.old_start) : line_end(self.old, words.old_end)]

    def _words_in(self, lines: DiffRange) -> Iterator[DiffRange]:
        """The differing words in a changed part of lines."""
        old_spans = [match.span() for match in WORD_OR_PUNCTUATION.finditer(self.old, lines.old_start, lines.old_end)]
        spans = [match.span() for match in WORD_OR_PUNCTUATION.finditer(self.new, lines.start, lines.end)]
        if len(old_spans) + len(spans) > _MAX_TOKENS:
            yield lines
            return
        old_words = [self.old[start:end] for start, end in old_spans]
        words = [self.new[start:end] for start, end in spans]
        old_spans.append((lines.old_end, lines.old_end))
        spans.append((lines.end, lines.end))
        for tag, i, j, k, m in SequenceMatcher(None, old_words, words, autojunk=False).get_opcodes():
            if tag != "equal":
                old_end = old_spans[j - 1][1] if j > i else old_spans[i][0]
                yield DiffRange(old_spans[i][0], old_end, spans[k][0], spans[m - 1][1] if m > k else spans[k][0])

    def _substituted_in(self, words: DiffRange) -> Iterator[tuple[int, int]]:
        old_matches = list(WORD_OR_PUNCTUATION.finditer(self.old, words.old_start, words.old_end))
        matches = list(WORD_OR_PUNCTUATION.finditer(self.new, words.start, words.end))
        if [_shape(match[0]) for match in old_matches] != [_shape(match[0]) for match in matches]:
            old_matches, matches = (
                [match for match in tokens if match[0].isidentifier()] for tokens in (old_matches, matches)
            )
            if (len(old_matches), len(matches)) != (1, 1):
                return
        for old, new in zip(old_matches, matches, strict=True):
            if old[0] != new[0] and old[0].isidentifier() and new[0].isidentifier():
                yield old.start(), new.start()


def _shape(token: str) -> str:
    return "w" if token.isidentifier() else token
