"""The recent edits of a document, in memory only, and the differences between an earlier text and the current one."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import accumulate

from lsp_server.documents.change import TextChange, minimal_change
from lsp_server.syntax.lines import line_end, line_start

MOST_EDITS = 24
MOST_CHARACTERS = 20_000
"""The total of removed and added text; anything larger is no edit to follow, and resets the history."""
_MOST_EARLIER = 5
"""Limited, because each text is parsed."""
_MOST_LINES = 500
"""Between two changes, to compare with all others: beyond, lines that occur often are only compared beside rarer ones,
as the time grows with the square of their number."""
_MOST_TOKENS = 1_500
WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]")
LINE = re.compile(r"[^\n]*\n|[^\n]+")


class RecentEdits:
    """The recent edits of one document, oldest first."""

    def __init__(self) -> None:
        self._edits: list[TextChange] = []
        self._open = 0

    def changed(self, changes: Sequence[TextChange]) -> None:
        """The document has changed. Each change continues one of the latest edits, or starts a new one."""
        began = len(self._edits) - self._open
        for change in changes:
            self._add(change, max(began, 0))
        self._open = min(len(changes), len(self._edits))
        while len(self._edits) > MOST_EDITS or sum(map(_size, self._edits)) > MOST_CHARACTERS:
            self._edits.pop(0)

    def close(self) -> None:
        """The next change starts a new edit, wherever it is."""
        self._open = 0

    def earlier(self, text: str) -> Iterator[str]:
        """The texts before the last edit, before the last two, and so on. `text` is the current one."""
        for number, edit in enumerate(reversed(self._edits), 1):
            text = TextChange(edit.start, edit.added, edit.removed).applied(text)
            if number < _MOST_EARLIER or number == len(self._edits):
                yield text

    def _add(self, change: TextChange, began: int) -> None:
        """Adds a change; edits before `began` are closed."""
        moved = change  # as if made before the later edits
        for at in range(len(self._edits) - 1, began - 1, -1):
            edit = self._edits[at]
            end = edit.start + len(edit.added)
            is_inside = edit.start <= moved.start and moved.end <= end
            if is_inside or (at == len(self._edits) - 1 and moved.start <= end and edit.start <= moved.end):
                self._merge(at, moved)
                return
            if moved.start < end and edit.start < moved.end:  # it covers more than one edit
                break
            if moved.start >= end:
                moved = TextChange(moved.start - edit.shift, moved.removed, moved.added)
        self._edits.append(change)

    def _merge(self, at: int, change: TextChange) -> None:
        """Extends an edit by a change that touches it, and shifts later edits behind it."""
        self._edits[at] = merged = _merged(self._edits[at], change)
        place = change.start
        for later in range(at + 1, len(self._edits)):
            edit = self._edits[later]
            if edit.start > place:
                self._edits[later] = TextChange(edit.start + change.shift, edit.removed, edit.added)
            else:
                place += edit.shift
        if merged.removed == merged.added:
            del self._edits[at]


def _size(change: TextChange) -> int:
    return len(change.removed) + len(change.added)


def _merged(edit: TextChange, change: TextChange) -> TextChange:
    """One change with the effect of both in sequence. They touch."""
    end = edit.start + len(edit.added)
    before = change.removed[: max(edit.start - change.start, 0)]
    after = change.removed[len(change.removed) - max(change.end - end, 0) :]
    kept = edit.added[: max(change.start - edit.start, 0)], edit.added[len(edit.added) - max(end - change.end, 0) :]
    return TextChange(min(edit.start, change.start), before + edit.removed + after, kept[0] + change.added + kept[1])


@dataclass(frozen=True)
class Hunk:
    """`old[old_start:old_end]` became `new[start:end]`: whole words, or nothing."""

    old_start: int
    old_end: int
    start: int
    end: int


class Comparison:
    """How one text became another, word by word."""

    def __init__(self, old: str, new: str) -> None:
        self.old = old
        self.new = new

    @cached_property
    def hunks(self) -> tuple[Hunk, ...]:
        """The differences, in order."""
        return tuple(hunk for lines in self.lines for hunk in self._within(lines))

    @cached_property
    def renamed(self) -> tuple[tuple[int, int], ...]:
        """The places of substituted words: in the old text and in the new one."""
        return tuple(pair for hunk in self.hunks for pair in self._pairs(hunk))

    def is_new(self, start: int, end: int) -> bool:
        """Whether any of [start, end) of the new text is absent from the old one."""
        return any(hunk.start < end and start < hunk.end for hunk in self.hunks)

    def added_lines(self, hunk: Hunk) -> tuple[int, int] | None:
        """Where the whole lines are that a difference adds; None if it changes more or less than whole lines."""
        start = line_start(self.new, hunk.start)
        end = line_end(self.new, hunk.end)
        is_whole = self.new[start:end].strip() == self.new[hunk.start : hunk.end].strip()
        return (start, end) if is_whole and hunk.old_start == hunk.old_end else None

    def old_lines(self, hunk: Hunk) -> str:
        """The whole lines of the old text that a difference touches."""
        return self.old[line_start(self.old, hunk.old_start) : line_end(self.old, hunk.old_end)]

    @cached_property
    def lines(self) -> tuple[Hunk, ...]:
        """The differences by whole lines, in order."""
        change = minimal_change(self.old, self.new)
        first = self.old.rfind("\n", 0, change.start) + 1
        tail = len(self.old) - (self.old.find("\n", change.end) + 1 or len(self.old))
        before = LINE.findall(self.old[first : len(self.old) - tail])
        after = LINE.findall(self.new[first : len(self.new) - tail])
        at, new_at = ([*accumulate(map(len, lines), initial=first)] for lines in (before, after))
        matcher = SequenceMatcher(None, before, after, autojunk=len(after) > _MOST_LINES)
        return tuple(
            Hunk(at[i], at[j], new_at[k], new_at[m]) for tag, i, j, k, m in matcher.get_opcodes() if tag != "equal"
        )

    def _within(self, hunk: Hunk) -> Iterator[Hunk]:
        """The differing words in a changed part of lines."""
        olds = [match.span() for match in WORD_OR_SIGN.finditer(self.old, hunk.old_start, hunk.old_end)]
        news = [match.span() for match in WORD_OR_SIGN.finditer(self.new, hunk.start, hunk.end)]
        if len(olds) + len(news) > _MOST_TOKENS:
            yield hunk
            return
        words = [self.old[start:end] for start, end in olds]
        new_words = [self.new[start:end] for start, end in news]
        olds.append((hunk.old_end, hunk.old_end))
        news.append((hunk.end, hunk.end))
        for tag, i, j, k, m in SequenceMatcher(None, words, new_words, autojunk=False).get_opcodes():
            if tag != "equal":
                old_end = olds[j - 1][1] if j > i else olds[i][0]
                yield Hunk(olds[i][0], old_end, news[k][0], news[m - 1][1] if m > k else news[k][0])

    def _pairs(self, hunk: Hunk) -> Iterator[tuple[int, int]]:
        olds = list(WORD_OR_SIGN.finditer(self.old, hunk.old_start, hunk.old_end))
        news = list(WORD_OR_SIGN.finditer(self.new, hunk.start, hunk.end))
        if [_shape(match[0]) for match in olds] != [_shape(match[0]) for match in news]:
            olds, news = ([match for match in found if _shape(match[0]) == "w"] for found in (olds, news))
            if (len(olds), len(news)) != (1, 1):
                return
        for old, new in zip(olds, news, strict=True):
            if old[0] != new[0] and old[0].isidentifier() and new[0].isidentifier():
                yield old.start(), new.start()


def _shape(token: str) -> str:
    return "w" if token.isidentifier() else token
