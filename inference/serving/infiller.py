"""What the worker needs of whatever fills holes: a local engine, a remote server, or a stand-in of a benchmark."""

from collections.abc import AsyncIterator, Iterator
from typing import Protocol, runtime_checkable

from inference.messages import (
    Candidate,
    Done,
    Draft,
    Failed,
    InfillRequest,
    NextEditRequest,
    NextEdits,
)

JobEvent = Draft | Candidate | NextEdits | Done | Failed
"""What a client is told about its request. `Done` or `Failed` comes once, last."""

Steps = Iterator[Draft | Candidate | NextEdits | Done | None]
"""The work on one request: one item per step, None where a step has nothing to report, `Done` last.

Where it is a generator, or has a `close`, closing it stops the work and frees what it holds.
"""


class Filler(Protocol):
    """What the user is told of whatever fills holes."""

    @property
    def model(self) -> str:
        """Its name, as `Status.model` gives it."""

    @property
    def device(self) -> str:
        """Where it computes, such as "cpu" or "cuda:0", or a server's host and port."""

    @property
    def dtype(self) -> str:
        """What it computes in, such as "bfloat16"; empty where that is not known."""

    @property
    def context_tokens(self) -> int:
        """How much text of other files it has a use for, in tokens; 0: none."""

    @property
    def note(self) -> str:
        """What the user should know of it; empty: nothing."""


class Infiller(Filler, Protocol):
    """A loaded model that fills holes. One thread drives all its requests."""

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> Steps:
        """Start on a request; each step does at most one forward pass. `deadline` is in `time.monotonic()` seconds.

        Raises `inference.engine.RequestError`, here or in a step, where the request makes no sense.
        """


@runtime_checkable
class NextEditor(Protocol):
    """An infiller that can say which other places no longer fit after a change."""

    def next_edits(self, request: NextEditRequest, *, deadline: float | None = None) -> Steps:
        """Start on a request, as `Infiller.infill` does."""


@runtime_checkable
class Preparer(Protocol):
    """An infiller that can set up passes before they are needed."""

    def prepare(self) -> bool:
        """Sets up one of those that earlier requests could have used; whether there may be more. Takes long."""


class RemoteSteps(Protocol):
    """The work of a remote server on one request: what it has to report, `Done` last.

    Cancelling the task that waits for the next item, and `aclose`, abort what is asked of the server. All of it is used
    on one event loop.
    """

    def __aiter__(self) -> AsyncIterator[Draft | Candidate | Done]:
        """The items as they come. Raises RequestError; with `ErrorCode.SERVER` where the server is to blame."""

    def amend(self, hole: int, text: str) -> None:
        """Pin `text`, all that now stands at the start of hole number `hole` (from 0). Raises RequestError."""

    async def aclose(self) -> None:
        """Abort what still runs, and free it."""


class RemoteInfiller(Filler, Protocol):
    """Fills holes by asking a remote server; its requests run side by side on the worker's event loop."""

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> RemoteSteps:
        """Start on a request, without blocking. `deadline` is in `time.monotonic()` seconds, and is kept.

        Raises `inference.engine.RequestError`, here or later, where the request makes no sense.
        """

    async def close(self) -> None:
        """Close the connections to the server."""


@runtime_checkable
class Partner(Protocol):
    """What else there is to say of an autoregressive server that fills holes."""

    @property
    def partner(self) -> str:
        """How it is asked, of `inference.messages.PARTNER_KINDS`."""

    @property
    def sees_drafts(self) -> bool:
        """Whether a hole's draft is shown to it."""


@runtime_checkable
class Timed(Protocol):
    """What measures its passes, in milliseconds; 0: not known yet."""

    @property
    def token_ms(self) -> float:
        """One that writes a token."""

    @property
    def prompt_token_ms(self) -> float:
        """One token of a prompt that is read."""


@runtime_checkable
class Amendable(Protocol):
    """Steps that can be told, between two of them, what the user has typed meanwhile."""

    def amend(self, hole: int, text: str) -> None:
        """Pin `text`, all that now stands at the start of hole number `hole` (from 0)."""
