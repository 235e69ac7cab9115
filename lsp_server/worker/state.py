"""The states of a client, and its pauses between starts of a failing worker."""

import asyncio
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from inference.messages import ErrorCode, WorkerState
from lsp_server.worker.failure import WorkerFailure


class ClientState(StrEnum):
    """`stopped` is not an error: the next request starts a worker. `failed` and `backing_off` have a reason."""

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
"""The state of a connected client, derived from its worker's."""

DELAYS_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""The pauses after one failure in a row, after two, and so on; the last applies to all further ones."""
PATIENCE_S = 1.0
"""A request waits out a pause up to this long; during a longer one it fails immediately and says why."""


class Backoff:
    """Counts failures in a row and derives the pause. One success resets the count."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._until = 0.0
        self.reason = ""
        self.code = ErrorCode.STOPPED

    def failed(self, reason: str, code: ErrorCode, weight: int = 1) -> None:
        """Counts another failure, `weight` times; `reason` is for the user."""
        self._failures = min(self._failures + weight, len(DELAYS_S))
        self._until = self._clock() + DELAYS_S[self._failures - 1]
        self.reason = reason
        self.code = code

    def succeeded(self) -> None:
        """The worker has answered a request."""
        self._failures = 0
        self._until = 0.0
        self.reason = ""

    @property
    def remaining_s(self) -> float:
        """Seconds until the next start is allowed; 0 if now."""
        return max(0.0, self._until - self._clock())

    async def wait_out(self, log: Path) -> None:
        """Waits out a short pause. Raises WorkerFailure instead of a long one."""
        pause_s = self.remaining_s
        if pause_s > PATIENCE_S:
            raise WorkerFailure(self.code, f"{self.reason} (next try in {pause_s:.0f} s; log: {log})")
        if pause_s:
            await asyncio.sleep(pause_s)
