"""One change of a text, in `str` indices, and the smallest change between two texts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """`removed`, which stood at `start`, became `added`."""

    start: int
    removed: str
    added: str

    @property
    def end(self) -> int:
        """Where the removed text ended."""
        return self.start + len(self.removed)

    @property
    def shift(self) -> int:
        """How far the text after it moves."""
        return len(self.added) - len(self.removed)

    def applied(self, text: str) -> str:
        """`text` after the change."""
        return text[: self.start] + self.added + text[self.end :]

    def move(self, offset: int) -> int:
        """Where `offset` is after the change. A cursor at which text is typed ends up after that text."""
        if offset >= self.end:
            return offset + self.shift
        return min(offset, self.start + len(self.added))


def difference(old: str, new: str) -> Change:
    """The smallest single change that turns `old` into `new`. It removes and adds nothing if they are equal."""
    start = _common(old, new, len(old), len(new), from_end=False)
    same_at_end = _common(old, new, len(old) - start, len(new) - start, from_end=True)
    return Change(start, old[start : len(old) - same_at_end], new[start : len(new) - same_at_end])


def _common(one: str, other: str, one_limit: int, other_limit: int, *, from_end: bool) -> int:
    """How many characters two texts share at one end, at most as many as the limits. A binary search."""
    low, high = 0, min(one_limit, other_limit)
    while low < high:
        middle = (low + high + 1) // 2
        if from_end:
            same = one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]
        else:
            same = one[low:middle] == other[low:middle]
        low, high = (middle, high) if same else (low, middle - 1)
    return low
