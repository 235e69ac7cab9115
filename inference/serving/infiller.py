"""What the worker needs from an infiller: a local engine, a remote server, or a benchmark's stand-in."""

from collections.abc import AsyncIterator, Iterator
from typing import Protocol, runtime_checkable

from inference.messages import Candidate, Done, Draft, Failed, InfillRequest, NextEditRequest, NextEdits

JobEvent = Draft | Candidate | NextEdits | Done | Failed
"""The replies to a request. `Done` or `Failed` comes once, last."""

Steps = Iterator[Draft | Candidate | NextEdits | Done | None]
"""The work on a request: an item per step, None for no news, `Done` last. Closing a generator frees its memory."""


class Filler(Protocol):
    """Information about an infiller for the user."""

    model: str
    """Its name, as in `Status.model`."""
    device: str
    """Its device, such as "cpu" or "cuda:0", or a server's host and port."""
    dtype: str
    """Its number format, such as "bfloat16"; empty if not known."""
    context_tokens: int
    """How much text of other files it can use, in tokens; 0: none."""
    note: str
    """A message about it for the user; empty: nothing."""


class Infiller(Filler, Protocol):
    """A loaded model that fills holes. One thread drives all its requests."""

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> Steps:
        """Starts on a request; each step does at most one forward pass. `deadline` is in `time.monotonic()` seconds.

        Raises `inference.engine.RequestError`, here or in a step, if the request makes no sense.
        """


@runtime_checkable
class NextEditor(Protocol):
    """An infiller that can find other places that no longer fit after a change."""

    def next_edits(self, request: NextEditRequest, *, deadline: float | None = None) -> Steps:
        """Starts on a request, as `Infiller.infill` does."""


class RemoteSteps(Protocol):
    """A server's work on a request, `Done` last, for one event loop. Cancelling or `aclose` aborts it."""

    def __aiter__(self) -> AsyncIterator[Draft | Candidate | NextEdits | Done]:
        """Yields the items as they arrive. Raises RequestError; with `ErrorCode.SERVER` if the server is to blame."""

    def amend(self, hole: int, text: str) -> None:
        """Pins `text`, the whole text now at the start of hole number `hole` (from 0). Raises RequestError."""

    async def aclose(self) -> None:
        """Aborts everything still running, and frees it."""


class RemoteInfiller(Filler, Protocol):
    """Fills holes by asking a remote server; its requests run side by side on the worker's event loop."""

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> RemoteSteps:
        """Starts, without blocking. `deadline`: `time.monotonic()` seconds. Raises RequestError, here or later."""

    async def close(self) -> None:
        """Closes the connections to the server."""


@runtime_checkable
class RemoteNextEditor(Protocol):
    """A server that can rewrite what no longer fits after a change."""

    def next_edits(self, request: NextEditRequest, *, deadline: float | None = None) -> RemoteSteps:
        """Starts on a request, as `RemoteInfiller.infill` does."""


@runtime_checkable
class Autoregressive(Protocol):
    """Further information about an autoregressive server that fills holes."""

    partner: str
    """How to ask it, one of `inference.messages.PartnerKind`."""
    sees_drafts: bool
    """Whether it sees a hole's draft."""


@runtime_checkable
class Timed(Protocol):
    """The durations of its passes, in milliseconds; 0: not known yet."""

    token_ms: float
    """A pass that writes a token."""
    prompt_token_ms: float
    """One token of a prompt."""


@runtime_checkable
class Amendable(Protocol):
    """Steps that accept the user's typing in between."""

    def amend(self, hole: int, text: str) -> None:
        """Pins `text`, the whole text now at the start of hole number `hole` (from 0)."""
