"""The worker as its clients see it: its state, its connections, and its end. Used on the event loop only."""

import asyncio
import os
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec
import psutil

from inference.messages import Done, ErrorCode, Failed, Request, Status, Welcome, WorkerState
from inference.serving.connection import ClientConnection
from inference.serving.infiller import Autoregressive, Filler, JobEvent, Timed
from inference.serving.logs import log
from inference.serving.server_health import Punctuality, ServerHealth
from inference.serving.startup import WorkerArguments
from inference.serving.turns import STOPPED, Job, Jobs

LINGER_S = 2.0
"""How long a worker whose model did not load stays, so that clients learn why."""
FINISH_S = 60.0
"""How long running requests may take to finish once the worker is to end."""
HUNG_STEP_S = 10.0
"""When asked to end, do not wait for a step that has taken longer: most likely it never ends."""
MIN_STARTUP_S = 10.0
"""Do not end sooner, however short the idle time is: the server that started this worker needs a moment to connect."""


class WorkerService:
    """Serves connections and hears how loading goes, on the event loop."""

    def __init__(self, arguments: WorkerArguments, jobs: Jobs) -> None:
        self.token = ""
        self.ended = asyncio.Event()
        self.connections: set[ClientConnection] = set()
        self._loop = asyncio.get_running_loop()
        self.jobs = jobs
        self._idle_s = arguments.idle_s
        self._began = time.monotonic()
        self._alarms: dict[Job, asyncio.TimerHandle] = {}
        self._failure: tuple[ErrorCode, str] | None = None
        self._server, self._punctuality = ServerHealth(arguments.model), Punctuality()
        self._filler: Filler | None = None
        self._state = Status(
            WorkerState.LOADING, arguments.model, arguments.device or "", arguments.dtype or "", pid=os.getpid()
        )
        self._used = self._began + max(MIN_STARTUP_S - self._idle_s, 0.0)
        self._idle_timer = self._loop.call_later(max(self._idle_s, MIN_STARTUP_S), self._end_if_idle)

    @property
    def exit_code(self) -> int:
        """The exit status once `ended` is set."""
        return 1 if self._failure else 0

    # --- For connections ---

    def welcome(self) -> Welcome:
        """This worker's identity."""
        return Welcome(version=_release(), pid=os.getpid())

    def status(self) -> Status:
        """The worker's current state."""
        (running, waiting), filler = self.jobs.counts(), self._filler
        known: dict[str, Any] = {}
        if filler is not None:  # a server may have changed its model
            known |= {"model": filler.model, "context_tokens": filler.context_tokens}
        if isinstance(filler, Autoregressive):
            known |= {"partner": filler.partner, "sees_drafts": filler.sees_drafts}
        if isinstance(filler, Timed):
            known |= {"token_ms": filler.token_ms, "prompt_token_ms": filler.prompt_token_ms}
        now = msgspec.structs.replace(
            self._state,
            uptime_s=time.monotonic() - self._began,
            clients=len(self.connections),
            running=running,
            waiting=waiting,
            memory_bytes=int(psutil.Process().memory_info().rss),
            device_memory_bytes=_device_bytes(),
            step_s=self.jobs.step_s,
            **known,
        )
        return self._punctuality.in_status(self._server.in_status(now))

    def joined(self, connection: ClientConnection) -> None:
        """A client has passed the handshake; its first `Status` follows the `Welcome`."""
        self.connections.add(connection)
        self._watch_idleness()
        connection.send(self.status())

    def left(self, connection: ClientConnection) -> None:
        """A client is gone: cancels its jobs silently."""
        self.connections.discard(connection)
        if connection.has_asked:  # a client that only asks for the status does not keep it alive
            self._used = time.monotonic()
        jobs = tuple(connection.jobs.values())
        connection.jobs.clear()
        for job in jobs:
            self.jobs.cancel(job)
        self._watch_idleness()

    def submit(self, connection: ClientConnection, request: Request) -> Job | Failed:
        """Accepts `request`: its job, or the reason for refusing it."""
        if self._failure:
            return Failed(request.id, *self._failure)
        if self._state.state is WorkerState.STOPPING:
            return Failed(request.id, ErrorCode.STOPPED, STOPPED)

        def emit(job: Job, event: JobEvent) -> None:
            self._loop.call_soon_threadsafe(self._deliver, connection, job, event)

        job = Job(request, emit, document=(connection, request.path))
        self.jobs.submit(job)
        if request.deadline_ms is not None:
            self._alarms[job] = self._loop.call_later(request.deadline_ms / 1000, self.jobs.expire, job)
        self._refresh()
        return job

    def shut_down(self) -> None:
        """Finishes running jobs, refuses waiting ones, then ends; at once if asked twice or if the engine hangs."""
        if self._failure or self._state.state is WorkerState.STOPPING or self.jobs.step_s > HUNG_STEP_S:
            self.ended.set()
            return
        log.info("asked to end")
        self._enter(WorkerState.STOPPING, detail=STOPPED)
        self.jobs.fail(ErrorCode.STOPPED, STOPPED, waiting_only=True)
        self._loop.call_soon(self._end_if_finished)  # after the replies to the refused ones
        self._loop.call_later(FINISH_S, self.ended.set)

    def give_way(self) -> None:
        """Another worker has our place: ends as if asked to."""
        if self._state.state is not WorkerState.STOPPING:
            self.shut_down()

    # --- How loading goes, on the loop ---

    def progress(self, fraction: float, detail: str) -> None:
        """Loading has progressed, 0 to 1."""
        if self._state.state is WorkerState.LOADING:
            self._enter(WorkerState.LOADING, progress=fraction, detail=detail)

    def chosen(self, model: str, why: str) -> None:
        """The model and the reason for choosing it, if nobody named one."""
        log.info("%s: %s", model, why)
        self._state = msgspec.structs.replace(self._state, model=model, choice=why)
        self._tell_all()

    def ready(self, infiller: Filler) -> None:
        """The model is loaded."""
        if self._state.state is WorkerState.LOADING:
            self._server.answered()
            self._filler = infiller
            known = {"device": infiller.device, "dtype": infiller.dtype, "note": infiller.note}
            self._state = msgspec.structs.replace(self._state, **known)
            self._enter(WorkerState.READY, progress=1.0)
            self._used = time.monotonic()  # loading may have taken longer than the idle time
            self._refresh()

    def failed(self, code: ErrorCode, message: str) -> None:
        """There is no engine, or none any more: tells users `message` and ends, so that the next start can retry."""
        self._failure = code, message
        self._enter(WorkerState.FAILED, detail=message)
        self.jobs.fail(code, message, waiting_only=False)
        self._loop.call_later(LINGER_S, self.ended.set)

    # --- Inside ---

    def _deliver(self, connection: ClientConnection, job: Job, event: JobEvent) -> None:
        connection.deliver(job, event)
        self._punctuality.heard(job.request, event)
        if self._server.heard(event):
            self._tell_all()
        if isinstance(event, Done | Failed):
            end = event.outcome if isinstance(event, Done) else event.code
            log.info("a request ended after %.0f ms: %s", (time.monotonic() - job.received) * 1000, end)
            if alarm := self._alarms.pop(job, None):
                alarm.cancel()
            self._used = time.monotonic()
            self._refresh()
            self._watch_idleness()
            self._end_if_finished()

    def _refresh(self) -> None:
        """Tells clients when the worker becomes busy or idle."""
        if self._state.state in (WorkerState.READY, WorkerState.BUSY):
            state = WorkerState.BUSY if any(self.jobs.counts()) else WorkerState.READY
            if state is not self._state.state:
                self._enter(state, progress=1.0)

    def _enter(self, state: WorkerState, *, progress: float = 0.0, detail: str = "") -> None:
        if {state, self._state.state} - {WorkerState.READY, WorkerState.BUSY} and state is not self._state.state:
            log.info("%s", state)
        self._state = msgspec.structs.replace(self._state, state=state, progress=progress, detail=detail)
        self._tell_all()

    def _tell_all(self) -> None:
        status = self.status()
        for connection in self.connections:
            connection.send(status)

    def _watch_idleness(self) -> None:
        """While no client is connected, counts the idle time from the last use."""
        self._idle_timer.cancel()
        if not self.connections:
            remaining_s = self._used + self._idle_s - time.monotonic()
            self._idle_timer = self._loop.call_later(max(remaining_s, 0.0), self._end_if_idle)

    def _end_if_idle(self) -> None:
        if not self.connections and not any(self.jobs.counts()):
            log.info("idle for %g s", self._idle_s)
            self.ended.set()

    def _end_if_finished(self) -> None:
        if self._state.state is WorkerState.STOPPING and not any(self.jobs.counts()):
            self.ended.set()


def _release() -> str:
    try:
        return version("infill-ls")
    except PackageNotFoundError:
        return ""


def _device_bytes() -> int:
    """Memory that torch or MLX holds on the accelerator; 0 without one. Never imports them itself."""
    torch, mlx = sys.modules.get("torch"), sys.modules.get("mlx.core")
    try:
        if mlx is not None and mlx.is_available(mlx.gpu):
            return int(mlx.get_active_memory() + mlx.get_cache_memory())
        if torch is not None and torch.cuda.is_initialized():
            return int(torch.cuda.memory_reserved())
    except (AttributeError, RuntimeError):  # the engine's thread is still importing them
        pass
    return 0
