"""One request on its way through the worker."""

import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from inference.messages import Amend, Candidate, Done, Draft, Failed, InfillRequest, Outcome, Stats

Event = Draft | Candidate | Done | Failed
Steps = Iterator[Draft | Candidate | Done | None]
"""A generator of the engine's."""


@dataclass(eq=False)
class Job:
    """A request, when it came (`time.monotonic()` seconds) and how far it is.

    `emit` may be called from any thread. `document` groups the jobs that share turns. What follows belongs to the
    scheduler.
    """

    request: InfillRequest
    emit: Callable[["Job", Event], None]
    document: Hashable
    received: float = field(default_factory=time.monotonic)
    order: int = 0
    used_s: float = 0.0
    started: bool = False
    cancelled: bool = False
    amendments: list[Amend] = field(default_factory=list)
    steps: Steps | None = None

    @property
    def deadline(self) -> float | None:
        """When it must be answered, in `time.monotonic()` seconds; None where it may take as long as it needs."""
        limit_ms = self.request.deadline_ms
        return None if limit_ms is None else self.received + limit_ms / 1000

    def ended(self, outcome: Outcome) -> Done:
        """The final reply when it ends here and not in the engine."""
        return Done(self.request.id, outcome, Stats(ms=(time.monotonic() - self.received) * 1000))
