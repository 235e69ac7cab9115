"""Runs requests on the engine's one thread, a step of each in turn. Knows nothing about sockets or clients.

Call `run` in the engine's thread; everything else may be called from any thread. Each submitted job emits exactly one
Done or Failed, and nothing after it: the thread that takes a job off the list, under the lock, emits the final reply.
"""

import threading
import time
from collections import Counter
from collections.abc import Generator

from inference.engine.errors import CANNOT_JUDGE, RequestError
from inference.messages import Amend, Done, ErrorCode, Failed, InfillRequest, NextEditRequest, Outcome
from inference.models.family import Preparer
from inference.serving.faults import failure_of, is_device_lost, release_memory, return_memory
from inference.serving.infiller import Amendable, Infiller, JobEvent, NextEditor, Steps
from inference.serving.logs import describe, log
from inference.serving.turns import Job, Turns

MAX_RUNNING = 4
"""How many requests may have a canvas in memory, and as many quick ones; the rest wait."""

_PAUSE_S = 1.0
"""After this long without a request, prepare for later ones, and return freed memory to the system."""
_NEXT_PAUSE_S = 0.05
"""How long to wait for a request between two preparations."""


class DeviceLostError(Exception):
    """The accelerator failed; only a new process can use it again."""


class Scheduler:
    """The waiting and the running jobs; see `serving.turns.Jobs`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: list[Job] = []
        self._turns = Turns()
        self._step_began: float | None = None

    def submit(self, job: Job) -> None:
        """Adds `job`; it waits until the engine is loaded and its turn comes. A background job gives way to it."""
        with self._changed:
            for other in () if job.is_background else self._jobs:
                other.cancelled |= other.is_background and other.started
            self._turns.join(job, self._jobs)
            self._jobs.append(job)
            self._changed.notify()

    def cancel(self, job: Job) -> None:
        """Ends `job` before its next step, or now if it has not started. Has no effect on a job that has ended."""
        if self._take_off(job, waiting_only=True):
            job.emit(job, job.ended(Outcome.CANCELLED))
        with self._changed:
            job.cancelled = True
            self._changed.notify()

    def amend(self, job: Job, amendment: Amend) -> None:
        """Tells `job` before its next step what the user typed. Has no effect on a job that has ended."""
        with self._changed:
            job.amendments.append(amendment)

    def expire(self, job: Job) -> None:
        """Answers `job` if its deadline came before it started. The engine itself ends a running one."""
        if self._take_off(job, waiting_only=True):
            job.emit(job, job.ended(Outcome.DEADLINE))

    def fail(self, code: ErrorCode, message: str, *, waiting_only: bool) -> None:
        """Fails the waiting jobs; with `waiting_only` False all jobs, which is allowed once `run` is over."""
        with self._changed:
            jobs = tuple(self._jobs)
        for job in jobs:
            if self._take_off(job, waiting_only=waiting_only):
                job.emit(job, Failed(job.request.id, code, message))

    def counts(self) -> tuple[int, int]:
        with self._changed:
            running = sum(job.started for job in self._jobs)
            return running, len(self._jobs) - running

    @property
    def step_s(self) -> float:
        began = self._step_began
        return 0.0 if began is None else time.monotonic() - began

    def run(self, engine: Infiller) -> None:
        """Steps jobs for ever; a failure ends only its own job. Raises DeviceLostError."""
        while True:
            job = self._wait_for_next(engine)
            event = job.ended(Outcome.CANCELLED) if job.cancelled else self._step(job, engine)
            if isinstance(event, Done | Failed):
                self._finish(job, event)
            elif event is not None:
                job.emit(job, event)

    def _wait_for_next(self, engine: Infiller) -> Job:
        pause_s: float | None = _PAUSE_S
        while True:
            with self._changed:
                job = self._next()
                is_idle = job is None and not self._changed.wait(pause_s)
                if job is not None:
                    job.started = True
                    return job
            if is_idle and self._prepare(engine):  # not under the lock
                pause_s = _NEXT_PAUSE_S
            elif is_idle:
                pause_s = None
                return_memory()

    def _prepare(self, engine: Infiller) -> bool:
        """Whether there may be more to prepare. Raises DeviceLostError."""
        try:
            return isinstance(engine, Preparer) and engine.prepare()
        except Exception as error:
            self._check_device(error)
            log.error("nothing is prepared for later requests: %s", describe(error))
            return False

    def _next(self) -> Job | None:
        for job in self._jobs:
            if job.cancelled:
                return job
        wanted, most = [job for job in self._jobs if not job.is_background], MAX_RUNNING
        if not wanted:
            wanted, most = self._jobs, 1
        running = Counter(job.is_quick for job in wanted if job.started)
        return self._turns.next(job for job in wanted if job.started or running[job.is_quick] < most)

    def _step(self, job: Job, engine: Infiller) -> JobEvent | None:
        began = self._step_began = time.monotonic()
        try:
            if job.steps is None:
                job.steps = _begin(job, engine)
            self._amend(job)
            return next(job.steps)
        except Exception as error:
            return self._failed(job, error)
        finally:
            self._step_began = None
            with self._changed:
                self._turns.charge(job, time.monotonic() - began)

    def _amend(self, job: Job) -> None:
        with self._changed:
            amendments, job.amendments = job.amendments, []
        if isinstance(job.steps, Amendable):
            for amendment in amendments:
                job.steps.amend(amendment.hole, amendment.text)

    def _failed(self, job: Job, error: Exception) -> Failed:
        """The reply to a job whose step raised. Raises DeviceLostError if no further step can succeed."""
        self._check_device(error)
        return failure_of(error, job.request.id)

    def _check_device(self, error: Exception) -> None:
        if is_device_lost(error):
            log.error("the device is lost: %s", describe(error))
            raise DeviceLostError(f"The device failed ({error}); the worker is restarted") from error

    def _finish(self, job: Job, reply: Done | Failed) -> None:
        """Frees the resources of `job`, then answers it: a client with the answer may count on the memory."""
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
        """Takes `job` off the list. True if it was still there: then the caller must emit its final reply."""
        with self._changed:
            if job not in self._jobs or (waiting_only and job.started):
                return False
            self._jobs.remove(job)
            self._turns.leave(job, self._jobs)
            return True


def _begin(job: Job, engine: Infiller) -> Steps:
    """The work on a job. Raises RequestError if it makes no sense, or if this engine cannot do it."""
    match job.request:
        case InfillRequest():
            return engine.infill(job.request, deadline=job.deadline)
        case NextEditRequest() if isinstance(engine, NextEditor):
            return engine.next_edits(job.request, deadline=job.deadline)
    raise RequestError(CANNOT_JUDGE)
