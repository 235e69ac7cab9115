"""Holds the worker's accepted requests and decides whose step is next. Knows no engine and no threads.

The document with the least engine time goes first, and in it the request with the least; on a tie the newest. A
newcomer starts level with the least served. The time of automatic requests counts little: they are short, and useless
if late. Next edits wait for them.
"""

import time
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from inference.messages import Amend, Done, ErrorCode, InfillRequest, NextEditRequest, Outcome, Request, Stats
from inference.serving.infiller import JobEvent, Steps

STOPPED = "The worker is ending; the next request starts a new one"
_QUICK_SHARE = 1 / 8
"""How much of a quick request's time counts: beside one other it gets eight steps of nine."""


@dataclass(eq=False)
class Job:
    """A request, its arrival (`time.monotonic()` seconds), and its progress.

    `emit` may be called from any thread. Jobs of the same `document` share that document's turns. `size_bytes` is for
    the connection: how much the client has sent for it. The other fields belong to the scheduler.
    """

    request: Request
    emit: Callable[["Job", JobEvent], None]
    document: Hashable
    received: float = field(default_factory=time.monotonic)
    size_bytes: int = 0
    arrival: int = 0
    used_s: float = 0.0
    started: bool = False
    cancelled: bool = False
    amendments: list[Amend] = field(default_factory=list)
    steps: Steps | None = None

    @property
    def deadline(self) -> float | None:
        """Its deadline, in `time.monotonic()` seconds; None for no limit."""
        limit_ms = self.request.deadline_ms
        return None if limit_ms is None else self.received + limit_ms / 1000

    @property
    def is_quick(self) -> bool:
        """Whether it is an automatic request while the user types."""
        return isinstance(self.request, InfillRequest) and self.request.quick and not self.request.background

    @property
    def is_background(self) -> bool:
        """Whether nobody waits for it: it runs while there is nothing else to do, and ends when there is."""
        return isinstance(self.request, InfillRequest) and self.request.background

    @property
    def is_next_edit(self) -> bool:
        """Whether it looks for next edits. It goes on only while no automatic request does: an editor sends both."""
        return isinstance(self.request, NextEditRequest)

    def ended(self, outcome: Outcome) -> Done:
        """The final reply if it ends here and not in the engine."""
        return Done(self.request.id, outcome, Stats(ms=(time.monotonic() - self.received) * 1000))


class Jobs(Protocol):
    """The waiting and the running jobs. Each emits exactly one Done or Failed, and nothing after it."""

    def submit(self, job: Job) -> None:
        """Adds `job`; it waits until there is a model and its turn comes."""

    def cancel(self, job: Job) -> None:
        """Ends `job` soon, or now if it has not started. Has no effect on a job that has ended."""

    def amend(self, job: Job, amendment: Amend) -> None:
        """Tells `job` what the user typed. Has no effect on a job that has ended."""

    def expire(self, job: Job) -> None:
        """Answers `job` if its deadline came before it started. A running job ends itself."""

    def fail(self, code: ErrorCode, message: str, *, waiting_only: bool) -> None:
        """Fails the waiting jobs; with `waiting_only` False all jobs, which is allowed once there is no model."""

    def counts(self) -> tuple[int, int]:
        """The number of running and of waiting jobs."""

    @property
    def step_s(self) -> float:
        """How long the engine has been in its current step, in seconds; 0 between steps."""


class Turns:
    """The engine time used by each document with jobs. Not thread-safe: the scheduler's lock guards it."""

    def __init__(self) -> None:
        self._used_s: dict[Hashable, float] = {}
        self._arrivals = count(1)

    def join(self, job: Job, others: Collection[Job]) -> None:
        """Counts `job` in, level with the least served of `others`, the jobs that were there before it."""
        job.arrival = next(self._arrivals)
        siblings = [other.used_s for other in others if other.document == job.document]
        job.used_s = min(siblings, default=0.0)
        if not siblings:
            self._used_s[job.document] = min(self._used_s.values(), default=0.0)

    def leave(self, job: Job, others: Iterable[Job]) -> None:
        """Counts `job` out; `others` are the jobs that remain."""
        if all(other.document != job.document for other in others):
            self._used_s.pop(job.document, None)

    def charge(self, job: Job, seconds: float) -> None:
        """Records the duration of a step of `job`. Background work takes no turn from its document."""
        if job.is_background:
            return
        seconds *= _QUICK_SHARE if job.is_quick else 1
        job.used_s += seconds
        if job.document in self._used_s:
            self._used_s[job.document] += seconds

    def next(self, jobs: Iterable[Job]) -> Job | None:
        """The job whose step is next; None if there are none."""
        among = list(jobs)
        if any(job.is_quick for job in among):
            among = [job for job in among if not job.is_next_edit]
        return min(among, key=self._rank, default=None)

    def _rank(self, job: Job) -> tuple[float, float, int]:
        return self._used_s.get(job.document, 0.0), job.used_s, -job.arrival
