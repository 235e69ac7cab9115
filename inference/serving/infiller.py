"""What the worker needs of whatever fills holes: a local engine, a remote server, or a stand-in of a benchmark."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from inference.messages import Candidate, Done, Draft, Failed, InfillRequest

JobEvent = Draft | Candidate | Done | Failed
"""What a client is told about its request. `Done` or `Failed` comes once, last."""

Steps = Iterator[Draft | Candidate | Done | None]
"""The work on one request: one item per step, None where a step has nothing to report, `Done` last.

Where it is a generator, or has a `close`, closing it stops the work and frees what it holds.
"""


class Infiller(Protocol):
    """A loaded model that fills holes. One thread drives all its requests."""

    @property
    def model(self) -> str:
        """Its name, as `Status.model` gives it."""

    @property
    def device(self) -> str:
        """Where it computes, such as "cpu" or "cuda:0"."""

    @property
    def dtype(self) -> str:
        """What it computes in, such as "bfloat16"."""

    @property
    def context_tokens(self) -> int:
        """How much text of other files it has a use for, in tokens; 0: none."""

    @property
    def note(self) -> str:
        """What the user should know of it; empty: nothing."""

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> Steps:
        """Start on a request; each step does at most one forward pass. `deadline` is in `time.monotonic()` seconds.

        Raises `inference.engine.RequestError`, here or in a step, where the request makes no sense.
        """


@runtime_checkable
class Amendable(Protocol):
    """Steps that can be told, between two of them, what the user has typed meanwhile."""

    def amend(self, hole: int, text: str) -> None:
        """Pin `text`, all that now stands at the start of hole number `hole` (from 0)."""
