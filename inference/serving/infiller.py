"""What answers a worker's requests: a local engine in its thread, a server, or a test's stand-in."""

from collections.abc import AsyncIterator
from typing import Any, Protocol

from inference.messages import Candidate, Done, Draft, Failed, NextEdits, Request

JobEvent = Draft | Candidate | NextEdits | Done | Failed
"""The replies to a request. `Done` or `Failed` comes once, last."""


class Work(Protocol):
    """The work on one request, for the event loop."""

    def __aiter__(self) -> AsyncIterator[JobEvent]:
        """Yields the replies as they come. Raises RequestError; with `ErrorCode.SERVER` if a server is to blame."""

    def amend(self, hole: int, text: str) -> None:
        """Pins `text`, the whole text now at the start of hole number `hole` (from 0). Raises RequestError."""

    async def aclose(self) -> None:
        """Ends the work, if need be between two of its steps, and frees what it holds."""


class Infiller(Protocol):
    """A loaded model or a connected server. Used on the worker's event loop only."""

    def facts(self) -> dict[str, Any]:
        """The fields of `Status` that only it knows, at least `model`, `device` and `context_tokens`."""

    def infill(self, request: Request, *, deadline: float | None = None) -> Work:
        """Starts, without blocking. `deadline`: `time.monotonic()` seconds. Raises RequestError, here or later."""

    async def close(self) -> None:
        """Closes its connections."""
