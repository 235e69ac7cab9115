"""Runs requests that a remote server answers: each is a task on the worker's event loop.

Used on that loop only. Each submitted job emits exactly one Done or Failed, when its task has ended, and nothing after
it. Knows nothing about sockets, clients or HTTP.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from inference.engine.errors import CANNOT_JUDGE, RequestError
from inference.messages import Amend, Done, ErrorCode, Failed, InfillRequest, Outcome
from inference.models.family import OnProgress
from inference.serving.engine_thread import load_failure, throttled
from inference.serving.faults import failure_of, release_memory
from inference.serving.infiller import RemoteInfiller, RemoteNextEditor, RemoteSteps
from inference.serving.logs import describe, log
from inference.serving.startup import WorkerArguments
from inference.serving.turns import STOPPED, Job, Turns
from inference.serving.worker_service import WorkerService

MAX_RUNNING = 8
"""How many concurrent requests the server gets from this worker; the rest wait here, where order can be kept."""
LATE_S = 1.0
"""An answer this late never comes: abort the request."""
CLOSE_S = 2.0
"""The time limit for aborting a request and for closing the connections."""
ConnectInfiller = Callable[[WorkerArguments, OnProgress], Awaitable[RemoteInfiller]]
"""Connects to the server that `WorkerArguments.model` names. Raises ModelError if that is unusable."""


@dataclass(eq=False)
class _Running:
    """A job's task and work. `reply` is what the client gets if the task is cancelled."""

    began: float
    reply: Failed | None = None
    steps: RemoteSteps | None = None
    task: "asyncio.Task[Done | Failed] | None" = None


class RemoteJobs:
    """The jobs that wait and the jobs that run; see `serving.turns.Jobs`."""

    step_s = 0.0
    """Always 0: no step can hang here, since all waiting is for the network."""

    def __init__(self) -> None:
        self._infiller: RemoteInfiller | None = None
        self._waiting: list[Job] = []
        self._running: dict[Job, _Running] = {}
        self._turns = Turns()

    def begin(self, infiller: RemoteInfiller) -> None:
        """The server is connected: sends it the waiting jobs."""
        self._infiller = infiller
        self._start_next()

    async def close(self) -> None:
        """Fails and aborts every open request and disconnects from the server. Never raises."""
        self.fail(ErrorCode.STOPPED, STOPPED, waiting_only=False)
        tasks = {running.task for running in self._running.values() if running.task}
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_S)
        infiller, self._infiller = self._infiller, None
        if infiller is not None:
            await _closed(infiller.close())

    def submit(self, job: Job) -> None:
        """Adds `job`; it waits until there is a server and its turn comes. A background job gives way to it."""
        for other, running in () if job.is_background else tuple(self._running.items()):
            if other.is_background:
                _stop(running)
        self._turns.join(job, (*self._waiting, *self._running))
        self._waiting.append(job)
        self._start_next()

    def cancel(self, job: Job) -> None:
        if job in self._waiting:
            self._end(job, job.ended(Outcome.CANCELLED))
        elif running := self._running.get(job):
            _stop(running)

    def amend(self, job: Job, amendment: Amend) -> None:
        running = self._running.get(job)
        if running is None or running.steps is None:
            job.amendments.append(amendment)
            return
        try:
            running.steps.amend(amendment.hole, amendment.text)
        except Exception as error:
            running.reply = failure_of(error, job.request.id)
            _stop(running)

    def expire(self, job: Job) -> None:
        """Answers `job` if its deadline came before it started. The infiller ends a running one."""
        if job in self._waiting:
            self._end(job, job.ended(Outcome.DEADLINE))

    def fail(self, code: ErrorCode, message: str, *, waiting_only: bool) -> None:
        for job in tuple(self._waiting):
            self._end(job, Failed(job.request.id, code, message))
        for job, running in () if waiting_only else tuple(self._running.items()):
            running.reply = running.reply or Failed(job.request.id, code, message)
            _stop(running)

    def counts(self) -> tuple[int, int]:
        return len(self._running), len(self._waiting)

    def _start_next(self) -> None:
        """Gives every free place to the document that has the fewest, and among those to the least served."""
        while self._infiller is not None and len(self._running) < MAX_RUNNING and (waiting := self._ready()):
            places = Counter(job.document for job in self._running)
            fewest = min(places[job.document] for job in waiting)
            job = self._turns.next(job for job in waiting if places[job.document] == fewest)
            assert job is not None
            self._waiting.remove(job)
            self._start(job, self._infiller)

    def _ready(self) -> list[Job]:
        """The waiting jobs that may start: a background job only while nothing else runs or waits."""
        wanted = [job for job in self._waiting if not job.is_background]
        return wanted if wanted or self._running else self._waiting

    def _start(self, job: Job, infiller: RemoteInfiller) -> None:
        running = self._running[job] = _Running(time.monotonic())
        job.started = True
        running.task = asyncio.create_task(self._answer(job, running, infiller), name="request")
        running.task.add_done_callback(partial(self._ended, job, running))

    async def _answer(self, job: Job, running: _Running, infiller: RemoteInfiller) -> Done | Failed:
        """The final reply to `job`; emits everything before it."""
        limit_s = None if job.deadline is None else max(0.0, job.deadline - time.monotonic()) + LATE_S
        late = asyncio.timeout(limit_s)
        try:
            async with late:
                return await self._work(job, running, infiller)
        except Exception as error:
            return job.ended(Outcome.DEADLINE) if late.expired() else failure_of(error, job.request.id)

    async def _work(self, job: Job, running: _Running, infiller: RemoteInfiller) -> Done:
        if isinstance(job.request, InfillRequest):
            steps = infiller.infill(job.request, deadline=job.deadline)
        elif isinstance(infiller, RemoteNextEditor):
            steps = infiller.next_edits(job.request, deadline=job.deadline)
        else:
            raise RequestError(CANNOT_JUDGE)
        running.steps = steps
        try:
            for amendment in job.amendments:
                steps.amend(amendment.hole, amendment.text)
            async for event in steps:
                if isinstance(event, Done):
                    return event
                if running.task is not None and running.task.cancelling():
                    raise asyncio.CancelledError
                job.emit(job, event)
            raise EOFError("a request ended without its last word")
        finally:
            running.steps = None
            await _closed(steps.aclose())

    def _ended(self, job: Job, running: _Running, task: "asyncio.Task[Done | Failed]") -> None:
        """The task is over, however it ended."""
        self._turns.charge(job, time.monotonic() - running.began)
        own = job.ended(Outcome.CANCELLED) if task.cancelled() else task.result()
        self._end(job, running.reply or own)
        self._start_next()

    def _end(self, job: Job, reply: Done | Failed) -> None:
        """Removes `job` from the list and emits its final reply."""
        if job in self._waiting:
            self._waiting.remove(job)
        self._running.pop(job, None)
        self._turns.leave(job, (*self._waiting, *self._running))
        job.emit(job, reply)


def _stop(running: _Running) -> None:
    if running.task is not None:
        running.task.cancel()


async def _closed(closing: Coroutine[Any, Any, None]) -> None:
    """Waits briefly while something closes. Never raises an Exception."""
    try:
        async with asyncio.timeout(CLOSE_S):
            await closing
    except Exception as error:
        log.error("what a request held could not be closed: %s", describe(error))


@asynccontextmanager
async def connection(
    arguments: WorkerArguments, connect: ConnectInfiller, jobs: RemoteJobs, service: WorkerService
) -> AsyncIterator[None]:
    """Connects in the background while `jobs` run. On exit, fails open requests and disconnects."""
    connecting = asyncio.create_task(_connect(arguments, connect, jobs, service))
    try:
        yield
    finally:
        connecting.cancel()
        await jobs.close()


async def _connect(
    arguments: WorkerArguments, connect: ConnectInfiller, jobs: RemoteJobs, service: WorkerService
) -> None:
    """Reports to `service`; never raises an Exception."""
    service.progress(0.0, "starting")
    try:
        infiller = await connect(arguments, throttled(service.progress))
    except Exception as error:
        service.failed(*load_failure(error, arguments))
    else:
        release_memory()  # reading a tokenizer of 262,144 tokens takes 90 MB more than keeping it
        jobs.begin(infiller)
        service.ready(infiller)
