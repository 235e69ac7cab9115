"""One change of a text, in `str` indices, the smallest change between two texts, and ranges of a text under edit."""

from dataclasses import dataclass

from inference.models.family import common_prefix_and_suffix_lengths


@dataclass(frozen=True)
class TextChange:
    """`added` replaced `removed` at `start`."""

    start: int
    removed: str
    added: str

    @property
    def end(self) -> int:
        return self.start + len(self.removed)

    @property
    def shift(self) -> int:
        return len(self.added) - len(self.removed)

    def apply_to(self, text: str) -> str:
        return text[: self.start] + self.added + text[self.end :]

    def move_offset(self, offset: int) -> int:
        """`offset` after the change. A cursor where text is typed ends up after that text."""
        if offset >= self.end:
            return offset + self.shift
        return min(offset, self.start + len(self.added))


def minimal_change(old: str, new: str) -> TextChange:
    """The smallest single change from `old` to `new`. It is empty if they are equal."""
    start, same_at_end = common_prefix_and_suffix_lengths(old, new)
    return TextChange(start, old[start : len(old) - same_at_end], new[start : len(new) - same_at_end])


def trim_equal_ends(change: TextChange) -> TextChange:
    """The same change without its common prefix and suffix: some editors send whole lines, or the whole text."""
    if not change.removed:
        return change
    inner = minimal_change(change.removed, change.added)
    return TextChange(change.start + inner.start, inner.removed, inner.added)


@dataclass(frozen=True)
class TextRange:
    """`[start, end)` of the current text."""

    start: int
    end: int

    def slice(self, text: str) -> str:
        return text[self.start : self.end]

    def after_change(self, change: TextChange) -> "TextRange | None":
        """The range after a change by `trim_equal_ends`, with what was typed at its edges; None if more changed."""
        if self.start <= change.start and change.end <= self.end:
            return TextRange(self.start, self.end + change.shift)
        if change.end <= self.start:
            return TextRange(self.start + change.shift, self.end + change.shift)
        return self if change.start >= self.end else None
