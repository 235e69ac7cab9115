"""Decides which failures of the model's server the user is told of."""

import re

TELL_AGAIN_S = 600.0
"""After so long a user may have forgotten that the server failed before."""
_DETAIL = re.compile(r" \(|: ")
"""Where a message goes on with what may differ each time."""


class Outages:
    """A problem is told once while it lasts, and of one that comes and goes once in so long."""

    def __init__(self) -> None:
        self._lasting: set[str] = set()
        self._told_s: dict[str, float] = {}

    def is_news(self, problem: str, at_s: float) -> bool:
        """Whether to tell of this problem, empty for none, at this `time.monotonic`. It counts as told then."""
        if not problem:
            self._lasting.clear()
            return False
        kind = re.sub(r"\d+", "#", _DETAIL.split(problem)[0])
        if kind in self._lasting or at_s < self._told_s.get(kind, -TELL_AGAIN_S) + TELL_AGAIN_S:
            return False
        self._lasting.add(kind)
        self._told_s[kind] = at_s
        return True
