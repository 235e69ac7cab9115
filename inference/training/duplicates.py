"""Near duplicates, by the share of a file's three-line runs seen in files kept before it."""

import zlib

_RUN_LINES = 3


class Duplicates:
    """Remembers the admitted files. Whitespace and blank lines do not count."""

    def __init__(self, limit: float = 0.5) -> None:
        """`limit`: the largest share of a file that may have been seen before."""
        self._limit = limit
        self._seen: set[int] = set()

    def admit(self, text: str) -> bool:
        """Whether the seen share of the text is within the limit; if so, remembers it."""
        runs = _runs(text)
        if not runs or len(runs & self._seen) > self._limit * len(runs):
            return False
        self._seen |= runs
        return True

    def share(self, text: str) -> float:
        """The share of the text seen before, 0 to 1."""
        runs = _runs(text)
        return len(runs & self._seen) / max(1, len(runs))


def _runs(text: str) -> set[int]:
    """A 32-bit number for each run of lines; a rare collision does no harm."""
    lines = [line for line in (line.strip() for line in text.split("\n")) if line]
    last = max(1, len(lines) - _RUN_LINES + 1)
    return {zlib.crc32("\n".join(lines[i : i + _RUN_LINES]).encode()) for i in range(last if lines else 0)}
