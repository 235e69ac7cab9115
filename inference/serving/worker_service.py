"""The worker as its clients see it: its state, its connections, and its shutdown. Used on the event loop only."""

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial

import msgspec
import psutil

from inference.messages import Done, ErrorCode, Failed, Outcome, Request, Status, WorkerState
from inference.models.catalogue import AUTO
from inference.models.family import ModelError
from inference.remote import address
from inference.serving.connection import ClientConnection
from inference.serving.log_and_errors import describe_load_failure, log
from inference.serving.scheduler import WORKER_STOPPING, Backend, Job, JobEvent, Scheduler
from inference.serving.startup import WorkerArguments, release_memory

LINGER_S = 2.0
"""How long a worker without a model stays, so that clients can read why it did not load."""
FINISH_S = 60.0
"""How long running requests may take to finish once the worker is to end."""
HUNG_STEP_S = 10.0
"""On shutdown, do not wait for a step that has taken longer: most likely it never ends."""
CHECK_EVERY_S = 1.0
PROGRESS_EVERY_S = 0.1
"""The least time between two progress reports, since a checkpoint has thousands of tensors."""
MIN_STARTUP_S = 10.0
"""The worker stays at least this long, as the server that started it needs a moment to connect."""

MAX_UNANSWERED = 3
"""Report after this many requests in a row got no reply before their deadline."""
_MAX_PUNCTUALITY_SAMPLES = 10
"""How many automatic requests count for punctuality, and the fewest that say anything."""
_MIN_PUNCTUALITY_SAMPLES = 4
_TOO_SLOW = (
    "{late} of the last {count} suggestions were cut short or came to nothing, because the model needs longer than "
    "deadlineMs.automatic: raise it, or choose a smaller model"
)


class BackendHealth:
    """Tracks, by the replies, whether a server works and whether suggestions come in time."""

    def __init__(self, model: str) -> None:
        self._url = ""
        """The server that gets the text, without secrets; empty for a local model."""
        if address.is_url(model):
            self._url = address.parse_server_url(model).url
        self._up_since: float | None = None
        self._problem = ""
        self._num_unanswered = 0
        self._late: deque[bool] = deque(maxlen=_MAX_PUNCTUALITY_SAMPLES)

    def record_success(self) -> None:
        self._problem = ""
        self._up_since = self._up_since or time.monotonic()
        self._num_unanswered = 0

    def record_reply(self, request: Request, event: JobEvent) -> bool:
        """Counts the final reply to a request; returns whether the server has just failed or recovered."""
        previous = self._problem, self._up_since
        match event:
            case Failed(code=ErrorCode.SERVER):
                self._record_failure(event.message)
            case Failed() | Done(outcome=Outcome.CANCELLED):
                pass
            case Done(outcome=Outcome.DEADLINE) if not event.stats.steps:
                self._num_unanswered += bool(event.stats.canvases)  # only requests that were sent
                if self._num_unanswered >= MAX_UNANSWERED:
                    fault = f"has not answered the last {MAX_UNANSWERED} requests in time; typing continues without it"
                    self._record_failure(f"the server {self._url} {fault}; check that it runs, or change `model`")
            case _:
                self.record_success()
        is_seen = request.quick and not request.endpoint_client
        if is_seen and isinstance(event, Done) and event.outcome is not Outcome.CANCELLED:
            self._late.append(event.outcome is Outcome.DEADLINE)
        return bool(self._url) and previous != (self._problem, self._up_since)

    def _record_failure(self, problem: str) -> None:
        self._problem = problem
        self._up_since = None

    def add_to_status(self, status: Status) -> Status:
        """The same status with the server's health, and with a note if most suggestions were late."""
        if self._url:
            up_s = 0.0 if self._up_since is None else time.monotonic() - self._up_since
            status = msgspec.structs.replace(status, server=self._url, server_up_s=up_s, server_problem=self._problem)
        num_late = sum(self._late)
        count = len(self._late)
        if count < _MIN_PUNCTUALITY_SAMPLES or num_late * 2 < count:
            return status
        slow = _TOO_SLOW.format(late=num_late, count=count)
        return msgspec.structs.replace(status, note=f"{status.note}; {slow}" if status.note else slow)


class WorkerService:
    """Serves connections and follows the loading of the model, on the event loop."""

    def __init__(self, arguments: WorkerArguments) -> None:
        self.token = ""
        self.ended = asyncio.Event()
        self.connections: set[ClientConnection] = set()
        self.scheduler = Scheduler()
        self._choice_task: asyncio.Task[None] | None = None
        self._arguments = arguments
        self._loop = asyncio.get_running_loop()
        self._began = time.monotonic()
        self._next_progress = self._began
        self.failure: tuple[ErrorCode, str] | None = None
        self._health = BackendHealth(arguments.model)
        self._backend: Backend | None = None
        self._state = Status(
            WorkerState.LOADING, arguments.model, arguments.device or "", arguments.dtype or "", pid=os.getpid()
        )
        self._last_used_s = self._began + max(MIN_STARTUP_S - arguments.idle_s, 0.0)

    async def wait_until_ended(self) -> None:
        """Waits until the worker ends, which it does by itself after the idle time without a client."""
        while not self.ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_EVERY_S):
                    await self.ended.wait()
            unused_s = time.monotonic() - self._last_used_s
            if not self.connections and not any(self.scheduler.job_counts()) and unused_s >= self._arguments.idle_s:
                log.info("idle for %g s", self._arguments.idle_s)
                self.ended.set()

    # --- For connections ---

    def status(self) -> Status:
        running, waiting = self.scheduler.job_counts()
        now = msgspec.structs.replace(
            self._state,
            uptime_s=time.monotonic() - self._began,
            clients=len(self.connections),
            running=running,
            waiting=waiting,
            memory_bytes=int(psutil.Process().memory_info().rss),
            device_memory_bytes=_device_bytes(),
            **(self._backend.status_fields() if self._backend else {}),  # a server may have changed its model
        )
        return self._health.add_to_status(now)

    def on_client_joined(self, connection: ClientConnection) -> None:
        """A client has passed the handshake; its first `Status` follows the `Welcome`."""
        self.connections.add(connection)
        connection.send(self.status())

    def on_client_left(self, connection: ClientConnection) -> None:
        """A client has disconnected: cancels its jobs silently."""
        self.connections.discard(connection)
        if connection.has_requested:  # a client that only asks for the status does not keep it alive
            self._last_used_s = time.monotonic()
        for job in connection.jobs.values():
            self.scheduler.cancel(job)
        connection.jobs.clear()  # nobody would get their replies

    def submit(self, connection: ClientConnection, request: Request) -> Job | Failed:
        """Accepts `request` and returns its job, or the reason for refusing it."""
        if self.failure:
            return Failed(request.id, *self.failure)
        if self._state.state is WorkerState.STOPPING:
            return Failed(request.id, ErrorCode.STOPPED, WORKER_STOPPING)

        job = Job(request, partial(self._deliver, connection), (connection, request.endpoint_client))
        self.scheduler.submit(job)
        self._refresh_state()
        return job

    def shut_down(self) -> None:
        """Finishes running jobs, refuses waiting ones, then ends; at once if asked twice or if the engine hangs."""
        if self.failure or self._state.state is WorkerState.STOPPING or self.status().step_s > HUNG_STEP_S:
            self.ended.set()
            return
        self._enter_state(WorkerState.STOPPING, detail=WORKER_STOPPING)
        self.scheduler.fail(ErrorCode.STOPPED, WORKER_STOPPING, waiting_only=True)
        self._end_if_finished()  # otherwise the last reply ends it
        self._loop.call_later(FINISH_S, self.ended.set)

    def choose_again(self) -> None:
        """After a pull, checks whether `auto` would now choose another model: then this worker ends, and the next
        request starts a new one. Broadcasts the status once that is decided.
        """
        if self._choice_task is None or self._choice_task.done():
            self._choice_task = asyncio.create_task(self._choose_again(), name="choose again")

    async def _choose_again(self) -> None:
        is_free, status = self._arguments.model == AUTO and self._backend is not None, self.status()
        try:
            held_bytes = status.device_memory_bytes or status.memory_bytes
            is_outdated = is_free and await asyncio.to_thread(self._is_outdated, held_bytes)
            is_hung = self.status().step_s > HUNG_STEP_S
            if is_outdated and not is_hung and self._state.state is not WorkerState.STOPPING:
                self.shut_down()
        finally:
            self._state = msgspec.structs.replace(self._state, choices=self._state.choices + 1)
            self._broadcast_status()

    def _is_outdated(self, held_bytes: int) -> bool:
        from inference.models import recommend  # here and not above: it imports torch, as the model has

        try:
            device, edits = self._arguments.device, self._arguments.edits
            choice = recommend.choose_auto_model(device, edits=edits, held_bytes=held_bytes)
            return choice.model != self._state.model
        except ModelError as error:
            log.warning("the model stays: %s", error)
            return False

    # --- Loading, on the loop ---

    async def serve_once_loaded(self, loading: Awaitable[Backend]) -> None:
        """Waits for the model, or the connection to a server, and starts the jobs. Never raises an Exception."""
        self.on_progress(0.0, "starting")
        try:
            backend = await loading
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # such as a panic of a library in Rust
            chosen = msgspec.structs.replace(self._arguments, model=self._state.model)
            self.on_failure(ErrorCode.MODEL, describe_load_failure(error, chosen))
            return
        release_memory()  # packed weights and a large tokenizer take hundreds of MB less to keep than to make
        self._health.record_success()
        self._backend = backend
        if self._state.state is WorkerState.LOADING:
            self._enter_state(WorkerState.READY, progress=1.0)
        self._last_used_s = time.monotonic()  # loading may have taken longer than the idle time
        self.scheduler.start(backend)
        self._refresh_state()

    def on_progress(self, fraction: float, detail: str) -> None:
        if self._state.state is WorkerState.LOADING and time.monotonic() >= self._next_progress:
            self._next_progress = time.monotonic() + PROGRESS_EVERY_S
            self._enter_state(WorkerState.LOADING, progress=fraction, detail=detail)

    def on_model_chosen(self, model: str, reason: str, better: str) -> None:
        """Records the model that `auto` chose, the reason for it, and a better one to pull."""
        log.info("%s: %s", model, reason)
        self._state = msgspec.structs.replace(self._state, model=model, choice=reason, better=better)
        self._broadcast_status()

    def on_failure(self, code: ErrorCode, message: str) -> None:
        """Loading failed, or the engine did: tells users `message` and ends, so that the next start can retry."""
        self.failure = code, message
        self._enter_state(WorkerState.FAILED, detail=message)
        self.scheduler.fail(code, message)
        self._loop.call_later(LINGER_S, self.ended.set)

    # --- Internal ---

    def _deliver(self, connection: ClientConnection, job: Job, event: JobEvent) -> None:
        connection.deliver(job, event)
        if self._health.record_reply(job.request, event):
            self._broadcast_status()
        if isinstance(event, Done | Failed):
            end = event.outcome if isinstance(event, Done) else event.code
            log.info("a request ended after %.0f ms: %s", (time.monotonic() - job.received_s) * 1000, end)
            self._last_used_s = time.monotonic()
            self._refresh_state()
            self._end_if_finished()

    def _refresh_state(self) -> None:
        if self._state.state in (WorkerState.READY, WorkerState.BUSY):
            state = WorkerState.BUSY if any(self.scheduler.job_counts()) else WorkerState.READY
            if state is not self._state.state:
                self._enter_state(state, progress=1.0)

    def _enter_state(self, state: WorkerState, *, progress: float = 0.0, detail: str = "") -> None:
        if {state, self._state.state} - {WorkerState.READY, WorkerState.BUSY} and state is not self._state.state:
            log.info("%s", state)
        self._state = msgspec.structs.replace(self._state, state=state, progress=progress, detail=detail)
        self._broadcast_status()

    def _broadcast_status(self) -> None:
        status = self.status()
        for connection in self.connections:
            connection.send(status)

    def _end_if_finished(self) -> None:
        if self._state.state is WorkerState.STOPPING and not any(self.scheduler.job_counts()):
            self.ended.set()


def _device_bytes() -> int:
    """Memory that torch or MLX holds on the accelerator; 0 without one. Never imports them itself."""
    torch = sys.modules.get("torch")
    mlx = sys.modules.get("mlx.core")
    try:
        if mlx is not None and mlx.is_available(mlx.gpu):
            return int(mlx.get_active_memory() + mlx.get_cache_memory())
        if torch is not None and torch.cuda.is_initialized():
            return int(torch.cuda.memory_reserved())
    except (AttributeError, RuntimeError):  # the engine's thread is still importing them
        pass
    return 0
