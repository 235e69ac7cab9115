"""What the worker's service needs of whatever runs its jobs: the engine's scheduler, or requests to a server."""

from typing import Protocol

from inference.messages import Amend, ErrorCode
from inference.serving.turns import Job


class Jobs(Protocol):
    """The jobs that wait and the jobs that run. Each emits exactly one Done or Failed, and nothing after it."""

    def submit(self, job: Job) -> None:
        """Add `job`; it waits until there is a model and its turn comes."""

    def cancel(self, job: Job) -> None:
        """End `job` soon, or now if it has not started. Has no effect on a job that has ended."""

    def amend(self, job: Job, amendment: Amend) -> None:
        """Tell `job` what the user typed. Has no effect on a job that has ended."""

    def expire(self, job: Job) -> None:
        """Answer `job` if its deadline came before it started. What runs ends itself."""

    def fail(self, code: ErrorCode, message: str, *, waiting_only: bool) -> None:
        """Fail the jobs that wait; with `waiting_only` False all jobs, which is allowed once there is no model."""

    def counts(self) -> tuple[int, int]:
        """How many jobs run and how many wait."""

    @property
    def step_s(self) -> float:
        """How long the engine has been in its present step, in seconds; 0 between steps."""
