"""How long a run has been training: the time in which its process is stopped, or the machine asleep, does not count."""

import time
from collections.abc import Callable

_LONGEST_LAP = 10.0
"""A lap counts for at most so many times the mean of those before it."""


class WorkClock:
    """Adds up laps, one for each step. The first does not count: its step compiles, which takes minutes."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._last, self._laps = now, now(), 0
        self.seconds = 0.0

    def lap(self) -> None:
        """Ends a lap and begins the next."""
        now = self._now()
        elapsed, self._last = now - self._last, now
        if self._laps > 1:
            elapsed = min(elapsed, _LONGEST_LAP * self.seconds / (self._laps - 1))
        if self._laps > 0:
            self.seconds += elapsed
        self._laps += 1
