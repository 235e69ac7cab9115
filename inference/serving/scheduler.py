"""Runs requests on the engine's one thread, a step of each in turn.

`run` belongs to the engine's thread, everything else may be called from any. Each job that is submitted emits exactly
one Done or Failed, as the last thing it emits: whoever takes it off the list, under the lock, says it. Knows nothing
about sockets or clients.
"""

import threading
import time
from collections.abc import Generator
from typing import Protocol, runtime_checkable

from inference.messages import Amend, Done, ErrorCode, Failed, InfillRequest, Outcome
from inference.serving.faults import failure_of, is_device_lost, release_memory
from inference.serving.infiller import Event, Job, Steps
from inference.serving.logs import describe, log
from inference.serving.turns import Fairness

MAX_RUNNING = 4
"""Requests that have a canvas of their own in memory at one time; the rest wait."""


class DeviceLostError(Exception):
    """The accelerator failed; only a new process can use it again."""


class Infiller(Protocol):
    """What is needed of the engine."""

    def infill(self, request: InfillRequest, *, deadline: float | None = None) -> Steps:
        """Each step does at most one forward pass; the last one gives Done. `deadline` is `time.monotonic()`."""


@runtime_checkable
class Amendable(Protocol):
    """Work that can be told, between two steps, what the user typed meanwhile."""

    def amend(self, hole: int, text: str) -> None:
        """Pin `text`, all that now stands at the start of a hole."""


class Scheduler:
    """The jobs that wait and the jobs that run."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: list[Job] = []
        self._fairness = Fairness()
        self._step_began: float | None = None

    def submit(self, job: Job) -> None:
        """Take `job` in; it waits until the engine is there and its turn comes."""
        with self._changed:
            self._fairness.join(job, self._jobs)
            self._jobs.append(job)
            self._changed.notify()

    def cancel(self, job: Job) -> None:
        """End `job` before its next step, at once if it has not started. One that has ended stays as it is."""
        if self._take_off(job, waiting_only=True):
            job.emit(job, job.ended(Outcome.CANCELLED))
        with self._changed:
            job.cancelled = True
            self._changed.notify()

    def amend(self, job: Job, amendment: Amend) -> None:
        """Tell `job` before its next step what the user typed; one that has ended stays as it is."""
        with self._changed:
            job.amendments.append(amendment)

    def expire(self, job: Job) -> None:
        """Answer `job` if its deadline came before it could start; one that runs is ended by the engine."""
        if self._take_off(job, waiting_only=True):
            job.emit(job, job.ended(Outcome.DEADLINE))

    def fail(self, code: ErrorCode, message: str, *, waiting_only: bool) -> None:
        """Fail the jobs that wait; with `waiting_only` False all of them, once `run` is over."""
        with self._changed:
            jobs = tuple(self._jobs)
        for job in jobs:
            if self._take_off(job, waiting_only=waiting_only):
                job.emit(job, Failed(job.request.id, code, message))

    def counts(self) -> tuple[int, int]:
        """How many jobs run and how many wait."""
        with self._changed:
            running = sum(job.started for job in self._jobs)
            return running, len(self._jobs) - running

    @property
    def step_s(self) -> float:
        """How long the engine has been in its present step, in seconds; 0 between steps."""
        began = self._step_began
        return 0.0 if began is None else time.monotonic() - began

    def run(self, engine: Infiller) -> None:
        """Step jobs for ever; one that fails fails alone. Raises DeviceLostError."""
        while True:
            job = self._wait_for_next()
            event = job.ended(Outcome.CANCELLED) if job.cancelled else self._step(job, engine)
            if isinstance(event, Done | Failed):
                self._finish(job, event)
            elif event is not None:
                job.emit(job, event)

    def _wait_for_next(self) -> Job:
        with self._changed:
            while (job := self._next()) is None:
                self._changed.wait()
            job.started = True
            return job

    def _next(self) -> Job | None:
        for job in self._jobs:
            if job.cancelled:
                return job
        running = [job for job in self._jobs if job.started]
        return self._fairness.next(running if len(running) >= MAX_RUNNING else self._jobs)

    def _step(self, job: Job, engine: Infiller) -> Event | None:
        began = self._step_began = time.monotonic()
        try:
            if job.steps is None:
                job.steps = engine.infill(job.request, deadline=job.deadline)
            self._amend(job)
            return next(job.steps)
        except Exception as error:
            return self._failed(job, error)
        finally:
            self._step_began = None
            with self._changed:
                self._fairness.charge(job, time.monotonic() - began)

    def _amend(self, job: Job) -> None:
        with self._changed:
            amendments, job.amendments = job.amendments, []
        if isinstance(job.steps, Amendable):
            for amendment in amendments:
                job.steps.amend(amendment.hole, amendment.text)

    def _failed(self, job: Job, error: Exception) -> Failed:
        """The reply to a job whose step raised. Raises DeviceLostError when no step can succeed any more."""
        if is_device_lost(error):
            log.error("the device is lost: %s", describe(error))
            raise DeviceLostError(f"The device failed ({error}); the worker is restarted") from error
        return failure_of(error, job.request.id)

    def _finish(self, job: Job, reply: Done | Failed) -> None:
        """Free what `job` holds, then answer it: whoever has the answer may count on the memory."""
        try:
            if isinstance(job.steps, Generator):
                job.steps.close()
        except Exception as error:
            log.error("a request could not be closed: %s", describe(error))
        job.steps = None
        if isinstance(reply, Failed) and reply.code is ErrorCode.OUT_OF_MEMORY:
            release_memory()
        if self._take_off(job, waiting_only=False):
            job.emit(job, reply)

    def _take_off(self, job: Job, *, waiting_only: bool) -> bool:
        """Whether `job` was still on the list; the caller owes it its final reply."""
        with self._changed:
            if job not in self._jobs or (waiting_only and job.started):
                return False
            self._jobs.remove(job)
            self._fairness.leave(job, self._jobs)
            return True
