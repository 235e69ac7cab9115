"""How long to leave a busy or unreachable server alone: longer each time, or as long as it requests."""

import random
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

from inference.engine.errors import RequestError
from inference.messages import ErrorCode

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 30.0
_MOST_FAILURES = 7
"""The pause is at its longest then."""
_JITTER_S = 1.0
"""Waiting requests resume spread over this time, so as not to come all in one moment."""


class ServerError(RequestError):
    """The server is to blame; str() says for what, and what to do. `status` is that of its answer, 0 without one."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message, ErrorCode.SERVER)
        self.status = status


class BusyError(Exception):
    """Worth another attempt. `pause_s` is the pause the server requests, None if it does not say."""

    def __init__(self, error: ServerError, pause_s: float | None = None) -> None:
        super().__init__(str(error))
        self.error, self.pause_s = error, pause_s


@dataclass
class Pause:
    """How long to ask nothing, after failures of any request. An answer ends it, and halves the count of failures."""

    failures: int = 0
    until: float = 0.0
    error: ServerError | None = None
    _random: random.Random = field(default_factory=random.Random)

    def failed(self, busy: BusyError) -> None:
        """Pauses for longer each time, or as long as the server requests. Simultaneous failures count once."""
        if time.monotonic() >= self.until:
            self.failures = min(self.failures + 1, _MOST_FAILURES)
            longest = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**self.failures)
            self.until = time.monotonic() + longest * self._random.uniform(0.5, 1.0)
        if busy.pause_s is not None:
            self.until = max(self.until, time.monotonic() + min(busy.pause_s, _LONGEST_PAUSE_S))
        self.error = busy.error

    def over(self) -> None:
        """The server answered."""
        self.failures, self.until, self.error = self.failures // 2, 0.0, None

    def jittered(self, left_s: float) -> float:
        """How long one waiting request sleeps if this much of the pause is left."""
        return left_s + self._random.uniform(0.0, min(left_s / 2, _JITTER_S))


def retry_after_s(value: str | None) -> float | None:
    """The seconds of a Retry-After header, which holds a number of them or a date; None if it has neither."""
    if value is None:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
