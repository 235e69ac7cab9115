"""The worker's queue of waiting and running requests, for local and served models. Used on the event loop only.

Each `JobPriority` has slots of its own, and one client gets only a part of them, so no client keeps the explicit
requests of another one waiting. A free slot goes to the client with the fewest running requests of the priority, then
to its document with the fewest, then to the newest request. Knows nothing about sockets, threads or HTTP.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from typing import Any, Protocol

from inference.deadline import Deadline
from inference.messages import (
    Done,
    Draft,
    ErrorCode,
    Failed,
    FilledHoles,
    NextEditRequest,
    NextEdits,
    Outcome,
    Request,
    Stats,
)
from inference.serving.log_and_errors import failed_reply, log, redacted_traceback


class JobPriority(IntEnum):
    """The order of requests, the most urgent first."""

    EXPLICIT = 0
    AUTOMATIC = 1
    NEXT_EDIT = 2
    ENDPOINT = 3


MAX_RUNNING, MAX_OF_CLIENT = 4, 2
"""The most running requests of a priority, and of one client in it: each holds a canvas in memory, or a connection."""
MAX_REQUEST_MS = 600_000
"""The default and the longest deadline of a request."""
CLOSE_S = 2.0
"""The time limit for ending a request's work, and for closing connections."""
WORKER_STOPPING = "The worker is ending; the next request starts a new one"
JobEvent = Draft | FilledHoles | NextEdits | Done | Failed
"""The replies to a request. `Done` or `Failed` comes once, last."""


class Backend(Protocol):
    """A loaded model in its thread, or a connected server. Used on the worker's event loop only."""

    def status_fields(self) -> dict[str, Any]:
        """The fields of `Status` that only the backend knows, at least `model`, `device` and `context_tokens`."""

    def replies(self, job: "Job") -> AsyncGenerator[JobEvent, None]:
        """Yields the replies to a request, Done or Failed last. Raises RequestError, here or later.

        Closing the generator ends the work between two steps, and frees its memory.
        """

    async def close(self) -> None:
        """Closes its connections."""


@dataclass(eq=False)
class Job:
    """A request of a `client`, an editor or one of an endpoint's clients. `emit` receives each reply. `received_s` is
    on the monotonic clock.
    """

    request: Request
    emit: Callable[["Job", JobEvent], None]
    client: object = None
    received_s: float = field(default_factory=time.monotonic)
    may_start: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there is a model and a free slot."""
    task: "asyncio.Task[Done | Failed] | None" = None
    reply: Failed | None = None
    """The final reply if the task is cancelled; None stands for `Done` with `Outcome.CANCELLED`."""

    @property
    def priority(self) -> JobPriority:
        if self.request.endpoint_client:
            return JobPriority.ENDPOINT
        if isinstance(self.request, NextEditRequest):
            return JobPriority.NEXT_EDIT
        return JobPriority.AUTOMATIC if self.request.quick else JobPriority.EXPLICIT

    @property
    def deadline(self) -> Deadline:
        timeout_ms = self.request.deadline_ms
        return Deadline(MAX_REQUEST_MS if timeout_ms is None else min(timeout_ms, MAX_REQUEST_MS), self.received_s)

    def done_reply(self, outcome: Outcome) -> Done:
        """The final reply of a job that ends in the scheduler and not in the backend."""
        return Done(self.request.id, outcome, Stats(ms=(time.monotonic() - self.received_s) * 1000))


class Scheduler:
    """The waiting and the running jobs. Each emits exactly one Done or Failed, and nothing after it."""

    def __init__(self) -> None:
        self._backend: Backend | None = None
        self._waiting: list[Job] = []
        self._running: list[Job] = []

    def start(self, backend: Backend) -> None:
        """Starts the waiting jobs, now that the model is loaded or the server connected."""
        self._backend = backend
        self._start_next()

    async def close(self) -> None:
        """Fails and ends every open request, then closes the backend. Never raises an Exception."""
        self.fail(ErrorCode.STOPPED, WORKER_STOPPING)
        tasks = [job.task for job in (*self._waiting, *self._running) if job.task]
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_S)
        if self._backend is not None:
            await _close_briefly(self._backend.close())

    def submit(self, job: Job) -> None:
        """Adds `job`; it waits until there is a model and a slot."""
        self._waiting.append(job)
        job.task = asyncio.create_task(self._run_job(job), name="request")
        job.task.add_done_callback(partial(self._finish, job))
        self._start_next()

    def cancel(self, job: Job) -> None:
        """Ends `job` before its next step. Has no effect on a job that has ended."""
        if job.task is not None:
            job.task.cancel()

    def fail(self, code: ErrorCode, message: str, *, waiting_only: bool = False) -> None:
        """Fails the waiting jobs and, unless `waiting_only`, the running ones."""
        for job in (*self._waiting, *(() if waiting_only else self._running)):
            job.reply = job.reply or Failed(job.request.id, code, message)
            self.cancel(job)

    def job_counts(self) -> tuple[int, int]:
        """The number of running and of waiting jobs."""
        return len(self._running), len(self._waiting)

    def _start_next(self) -> None:
        while self._backend is not None and (job := self._next_job()):
            self._waiting.remove(job)
            self._running.append(job)
            job.may_start.set()

    def _next_job(self) -> Job | None:
        """The job that a free slot goes to."""
        running = Counter(job.priority for job in self._running)
        clients = Counter((job.client, job.priority) for job in self._running)
        documents = Counter(job.request.path for job in self._running)

        def order(job: Job) -> tuple[int, int, int]:
            return job.priority, clients[job.client, job.priority], documents[job.request.path]

        may_start = [
            job
            for job in reversed(self._waiting)
            if running[job.priority] < MAX_RUNNING and clients[job.client, job.priority] < MAX_OF_CLIENT
        ]
        return min(may_start, key=order, default=None)

    async def _run_job(self, job: Job) -> Done | Failed:
        """Runs a job: emits all replies but the final one, which it returns after the backend has freed everything."""
        try:
            async with asyncio.timeout_at(job.deadline.time_s):
                await job.may_start.wait()
        except TimeoutError:
            return job.done_reply(Outcome.DEADLINE)
        assert self._backend is not None
        try:
            events = self._backend.replies(job)
            try:
                async for event in events:
                    if isinstance(event, Done | Failed):
                        return event
                    job.emit(job, event)
                raise EOFError("a request ended without a final reply")
            finally:
                await _close_briefly(events.aclose())
        except Exception as error:
            return failed_reply(error, job.request.id)

    def _finish(self, job: Job, task: "asyncio.Task[Done | Failed]") -> None:
        """Removes `job` and emits its final reply."""
        reply = job.done_reply(Outcome.CANCELLED) if task.cancelled() else task.result()
        (self._waiting if job in self._waiting else self._running).remove(job)
        job.emit(job, job.reply or reply)
        self._start_next()


async def _close_briefly(closing: Coroutine[Any, Any, None]) -> None:
    """Waits briefly while something closes. Never raises an Exception."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await closing
    except Exception as error:
        log.error("what a request held could not be closed: %s", redacted_traceback(error))
