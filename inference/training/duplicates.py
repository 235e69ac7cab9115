"""Near duplicates, by the share of a file's three-line runs that stood in files kept before it."""

import zlib

_RUN_LINES = 3
_LIMIT = 0.5


class Duplicates:
    """Remembers the files it let pass. Whitespace and blank lines do not count."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def admit(self, text: str) -> bool:
        """Whether less than half of the text stood before; if so it is remembered."""
        runs = _runs(text)
        if not runs or len(runs & self._seen) > _LIMIT * len(runs):
            return False
        self._seen |= runs
        return True


def _runs(text: str) -> set[int]:
    """A 32-bit number for each run of lines: one in some thousand millions collides, which does no harm."""
    lines = [line for line in (line.strip() for line in text.split("\n")) if line]
    last = max(1, len(lines) - _RUN_LINES + 1)
    return {zlib.crc32("\n".join(lines[i : i + _RUN_LINES]).encode()) for i in range(last if lines else 0)}
