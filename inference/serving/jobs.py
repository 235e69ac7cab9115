"""What the worker's service needs from whatever runs its jobs: the engine's scheduler or requests to a server."""

from collections import deque
from typing import Protocol

import msgspec

from inference.messages import Amend, Done, ErrorCode, InfillRequest, Outcome, Request, Status
from inference.serving.infiller import JobEvent
from inference.serving.turns import Job

_LATEST, _FEWEST = 10, 4
_TOO_SLOW = (
    "{late} of the last {count} suggestions were cut short or came to nothing, because the model needs longer than "
    "deadlineMs.automatic: raise it, or choose a smaller model"
)


class Punctuality:
    """How many of the latest automatic requests were cut short by their deadline."""

    def __init__(self) -> None:
        self._late: deque[bool] = deque(maxlen=_LATEST)

    def heard(self, request: Request, event: JobEvent) -> None:
        """The reply to a request."""
        if (
            isinstance(request, InfillRequest)
            and request.quick
            and isinstance(event, Done)
            and event.outcome is not Outcome.CANCELLED
        ):
            self._late.append(event.outcome is Outcome.DEADLINE)

    def in_status(self, status: Status) -> Status:
        """The same status, with a note if most of them were late."""
        late, count = sum(self._late), len(self._late)
        if count < _FEWEST or late * 2 < count:
            return status
        slow = _TOO_SLOW.format(late=late, count=count)
        return msgspec.structs.replace(status, note=f"{status.note}; {slow}" if status.note else slow)


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
