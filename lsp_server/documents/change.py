"""One change of a text, in `str` indices."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """`removed`, which stood at `start`, became `added`."""

    start: int
    removed: str
    added: str

    @property
    def end(self) -> int:
        """Where what was removed ended."""
        return self.start + len(self.removed)

    @property
    def shift(self) -> int:
        """How far what stands behind it moves."""
        return len(self.added) - len(self.removed)

    def applied(self, text: str) -> str:
        """`text` after the change."""
        return text[: self.start] + self.added + text[self.end :]

    def move(self, offset: int) -> int:
        """Where the place at `offset` is after the change: a cursor at which text is typed stands behind it."""
        if offset >= self.end:
            return offset + self.shift
        return min(offset, self.start + len(self.added))


def difference(old: str, new: str) -> Change:
    """The one change that makes `new` of `old`, as small as it can be. Nothing removed nor added: they are equal."""
    start = _common(old, new, len(old), len(new), from_end=False)
    behind = _common(old, new, len(old) - start, len(new) - start, from_end=True)
    return Change(start, old[start : len(old) - behind], new[start : len(new) - behind])


def _common(one: str, other: str, one_limit: int, other_limit: int, *, from_end: bool) -> int:
    """How many characters two texts share at one end, at most as many as the limits."""
    low, high = 0, min(one_limit, other_limit)
    while low < high:
        middle = (low + high + 1) // 2
        if from_end:
            same = one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]
        else:
            same = one[low:middle] == other[low:middle]
        low, high = (middle, high) if same else (low, middle - 1)
    return low
