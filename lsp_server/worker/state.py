"""Where a client stands with its worker, and when it may start one that keeps failing again."""

import time
from collections.abc import Callable
from enum import StrEnum

from inference.messages import ErrorCode, WorkerState


class ClientState(StrEnum):
    """`stopped` is no error: the next request starts a worker. `failed` and `backing_off` have a reason."""

    STOPPED = "stopped"
    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    BUSY = "busy"
    STOPPING = "stopping"
    FAILED = "failed"
    BACKING_OFF = "backing_off"
    CLOSED = "closed"


OF_WORKER = {state: ClientState(state.value) for state in WorkerState}
"""What a connected client's state is, by its worker's."""

DELAYS_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""The pause after one failure, two, and so on; the last one stays."""


class Backoff:
    """Failures in a row, and how long to wait because of them. One success forgets them all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0
        self.reason = ""
        self.code = ErrorCode.STOPPED

    def failed(self, reason: str, code: ErrorCode, weight: int = 1) -> None:
        """Another failure, which counts for `weight` of them; `reason` is for the user."""
        self._failures = min(self._failures + weight, len(DELAYS_S))
        self._until = self._clock() + DELAYS_S[self._failures - 1]
        self.reason = reason
        self.code = code

    def succeeded(self) -> None:
        """The worker has done what it is for."""
        self._failures = 0
        self._until = 0.0
        self.reason = ""

    @property
    def remaining_s(self) -> float:
        """Seconds until the next start is allowed; 0 when it is now."""
        return max(0.0, self._until - self._clock())
