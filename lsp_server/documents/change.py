"""One change of a text, in `str` indices, and the smallest change between two texts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """`added` replaced `removed` at `start`."""

    start: int
    removed: str
    added: str

    @property
    def end(self) -> int:
        """The end of the removed text."""
        return self.start + len(self.removed)

    @property
    def shift(self) -> int:
        """How far the text after it moves."""
        return len(self.added) - len(self.removed)

    def applied(self, text: str) -> str:
        """`text` after the change."""
        return text[: self.start] + self.added + text[self.end :]

    def move(self, offset: int) -> int:
        """`offset` after the change. A cursor where text is typed ends up after that text."""
        if offset >= self.end:
            return offset + self.shift
        return min(offset, self.start + len(self.added))


def difference(old: str, new: str) -> Change:
    """The smallest single change from `old` to `new`. It is empty if they are equal."""
    start = _common(old, new, len(old), len(new), from_end=False)
    same_at_end = _common(old, new, len(old) - start, len(new) - start, from_end=True)
    return Change(start, old[start : len(old) - same_at_end], new[start : len(new) - same_at_end])


def _common(one: str, other: str, one_limit: int, other_limit: int, *, from_end: bool) -> int:
    """The number of characters two texts share at one end, within the limits. A binary search."""
    low = 0
    high = min(one_limit, other_limit)
    while low < high:
        middle = (low + high + 1) // 2
        if from_end:
            same = one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]
        else:
            same = one[low:middle] == other[low:middle]
        low, high = (middle, high) if same else (low, middle - 1)
    return low
