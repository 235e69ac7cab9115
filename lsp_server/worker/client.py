"""The client of the resident worker: starts it when needed, and again when it dies; gives up on one that hangs.

A loading worker may take any time, as long as it sends its status. A worker with its model that misses a deadline is
slow or hung: it must send its status, and end its step in a bounded time.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Any, NoReturn, Self, TypeVar

import msgspec

from inference.deadline import Deadline
from inference.messages import (
    Cancel,
    ChooseModelAgain,
    Done,
    Draft,
    ErrorCode,
    Failed,
    FilledHoles,
    NextEdits,
    Request,
    ScoredEdit,
    Shutdown,
    Status,
    StatusRequest,
    WorkerMessage,
    WorkerOptions,
    WorkerState,
)
from inference.models.catalogue import AUTO, EMBEDDED, MODEL_FOR_NEW_USERS
from lsp_server.worker.connect import STATUS_S, NotListeningError, WorkerLink, attach_or_start, attach_with_retries
from lsp_server.worker.failure import StillLoadingError, WorkerError, WorkerUnresponsiveError
from lsp_server.worker.paths import WorkerPaths, find_worker_pid, is_suspended, paths_of

HEARTBEAT_S = 2.0
"""Heartbeat interval while a request is pending."""
ANSWER_GRACE_S = 0.5
"""An answer may still come this long after its deadline: the worker stops between two steps."""
RESPONSE_S = 3.0
"""A worker with its model answers immediately, however slow it is; after this silence it is hung."""
LOADING_RESPONSE_S = 60.0
"""A loading worker may be silent for long, since it may import libraries from a cold or distant disk."""
HUNG_STEP_S = 120.0
"""No step takes this long, even on the slowest processor with the largest model: the model is hung."""
MAX_ENDING_WORKERS = 3
"""A request gives up after it has met this many workers that were shutting down."""
MAX_MODEL_FAILURES = 4
"""A model that cannot be loaded counts as this many failures: retrying soon would only burden the machine."""
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 60.0
"""There is no pause after the first failure, `FIRST_PAUSE_S` after the second, then each pause doubles up to this."""
_WORKER_RESTARTED = "The worker restarted. Try again."
_HUNG_STEP = (
    "The model has been in one step for {:.0f} s and hangs; "
    "end its worker with the command infill-ls.restartWorker, or with `infill-ls worker --stop --force`"
)
_request_numbers = count(1)
_T = TypeVar("_T")
OnDraft = Callable[[Draft], None]
log = logging.getLogger(__name__)


class ClientState(StrEnum):
    """`stopped` is not an error: the next request starts a worker. `failed` and `backing_off` have a reason."""

    STOPPED = "stopped"
    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    BUSY = "busy"
    STOPPING = "stopping"
    FAILED = "failed"
    BACKING_OFF = "backing_off"
    CLOSED = "closed"


@dataclass(frozen=True)
class WorkerAnswer:
    """The answer to one request: the candidates, best first, or none, and how it ended."""

    candidates: tuple[FilledHoles, ...]
    done: Done
    edits: tuple[ScoredEdit, ...] = ()


@dataclass(eq=False)
class _Pending:
    """A request without its final reply. `reply` is done once it is no longer wanted."""

    on_draft: OnDraft | None
    reply: asyncio.Future[WorkerAnswer]
    candidates: list[FilledHoles] = field(default_factory=list)
    edits: tuple[ScoredEdit, ...] = ()


class WorkerClient:
    """A client of the worker of `options` (see `settings.worker_options`). `on_status` receives the worker's status,
    `on_state` this client's state.
    """

    def __init__(
        self,
        options: WorkerOptions,
        *,
        name: str,
        paths: WorkerPaths | None = None,
        on_status: Callable[[Status], None] | None = None,
        on_state: Callable[[ClientState, str], None] | None = None,
        hung_step_s: float = HUNG_STEP_S,
    ) -> None:
        self.options = options
        self.paths = paths or paths_of(options)
        self.last_status: Status | None = None
        self._name = name
        self._on_status = on_status
        self._on_state = on_state
        self._hung_step_s = hung_step_s
        self._announced: tuple[ClientState, str] = (ClientState.STOPPED, "")
        self._failure: WorkerError | None = None
        """The latest of `_failures` in a row. No worker is started before `_not_before_s`."""
        self._failures = 0
        self._not_before_s = 0.0
        self._connection: WorkerLink | None = None
        self._connecting: asyncio.Task[WorkerLink] | None = None
        self._pending: dict[str, _Pending] = {}
        self._status_changed = asyncio.Event()
        """Set when the worker sends its status, and when it starts or ends."""
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def state(self) -> ClientState:
        if self._closed:
            return ClientState.CLOSED
        if self._connection is not None:
            return ClientState(self._connection.status.state.value)
        if self._connecting is not None:
            return ClientState.STARTING
        if self._failure is None:
            return ClientState.STOPPED
        return ClientState.BACKING_OFF if time.monotonic() < self._not_before_s else ClientState.FAILED

    @property
    def has_model(self) -> bool:
        return self.state in (ClientState.READY, ClientState.BUSY)

    @property
    def reason(self) -> str:
        """Why the worker failed, or what it is doing while it loads; otherwise empty."""
        if self._connection is not None:
            return self._connection.status.detail
        return str(self._failure or "")

    @property
    def better_model(self) -> str:
        """The model to pull, if the embedded one runs because `auto` found no better one here; otherwise empty."""
        last = self.last_status
        makes_do = last is not None and last.model == EMBEDDED and self.options.model == AUTO
        return last.better or MODEL_FOR_NEW_USERS if last and makes_do else ""

    @property
    def pid(self) -> int | None:
        return self._connection.pid if self._connection else None

    async def request(
        self, request: Request, on_draft: OnDraft | None = None, deadline: Deadline | None = None
    ) -> WorkerAnswer:
        """The answer to `request`, whose id is unique or empty. Starts the worker if needed and waits for its model.

        Cancelling this cancels the request in the worker; a start continues. Raises WorkerError:
        WorkerUnresponsiveError if the worker hangs, and StillLoadingError if there is no model at the deadline. With a
        model, raises TimeoutError a moment after the deadline; without one, waits for as long as the worker lives.
        """
        request = request if request.id else msgspec.structs.replace(request, id=f"request-{next(_request_numbers)}")
        first_check_s = max((request.deadline_ms or 0) / 1000 - RESPONSE_S, 0)
        return await self._while_worker_responds(self._send_until_answered(request, on_draft), deadline, first_check_s)

    async def load(self, deadline: Deadline | None = None) -> None:
        """Starts the worker if needed, and waits until it has loaded its model. Raises as `request`.

        A worker that someone ends while it loads stays ended: no failure. Cancelling this leaves it loading.
        """
        if not self.has_model:
            await self._while_worker_responds(self._wait_for_model(), deadline)

    async def request_status(self) -> Status | None:
        """Asks the worker for its status; None if no worker runs. Raises WorkerError."""
        try:
            connection = self._connection or self._adopt(await attach_with_retries(self.paths, self._name, STATUS_S))
        except NotListeningError:
            return None
        previous = connection.status
        connection.send(StatusRequest())
        while connection.status is previous:
            if connection.failure is not None:
                raise WorkerError(connection.failure.code, str(connection.failure))
            await self._next_status()
        return connection.status

    async def responds_within(self, limit_s: float) -> bool:
        """Whether the connected worker reports its status within `limit_s`; True without one."""
        with suppress(WorkerError):  # it has ended; every pending request fails by itself
            try:
                async with asyncio.timeout(limit_s):
                    if self._connection is not None:
                        await self.request_status()
            except TimeoutError:
                return False
        return True

    async def shut_down(self, *, if_unused: bool = False) -> bool:
        """Asks the worker to finish its requests and end, and waits for that; False if none runs, or with `if_unused`
        if it has other clients.
        """
        if await self.request_status() is None or self._connection is None:
            return False
        connection = self._connection
        previous = connection.status
        connection.send(Shutdown(if_unused))
        while if_unused and connection.status is previous and connection.failure is None:
            await self._next_status()
        if if_unused and connection.failure is None and connection.status.state is not WorkerState.STOPPING:
            return False
        await connection.wait_closed()
        return True

    async def choose_again(self) -> None:
        """After a pull: has a worker of `auto` choose its model again. If that is another one, loads it in another
        worker. Raises WorkerError.
        """
        connection = await self._connected()
        previous = connection.status.choices
        connection.send(ChooseModelAgain())
        while connection.failure is None and connection.status.choices == previous:
            await self._next_status()
        if connection.status.state is WorkerState.STOPPING:
            await connection.wait_closed()
        await self.load()

    async def close(self) -> None:
        """Disconnects from the worker, which keeps running. Pending requests fail with `ErrorCode.STOPPED`."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if (connection := self._connection) is not None:
            self._disconnect(connection, WorkerError(ErrorCode.STOPPED, "The connection to the worker was closed"))
            if connection.reading is not None:
                connection.reading.cancel()
            await connection.wait_closed()
        self._announce()

    async def _while_worker_responds(
        self, work: Coroutine[Any, Any, _T], deadline: Deadline | None, first_check_s: float = 0.0
    ) -> _T:
        """The result of `work`, which waits for the worker. Cancels it if the worker hangs or this is cancelled."""
        task = asyncio.create_task(work)
        watch = asyncio.create_task(self._watch(first_check_s))
        both: set[asyncio.Task[Any]] = {task, watch}
        try:
            timeout_s = deadline.remaining_ms / 1000 if deadline else None
            done, _ = await asyncio.wait(both, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not done and deadline is not None:
                pid = self.pid or await asyncio.to_thread(find_worker_pid, self.paths)
                if is_suspended(pid):
                    raise WorkerUnresponsiveError(self.paths, pid)
                if not self.has_model:
                    raise StillLoadingError(deadline.timeout_ms, self.reason)
                done, _ = await asyncio.wait(both, timeout=ANSWER_GRACE_S, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                raise TimeoutError
            return task.result() if task in done else watch.result()
        finally:
            for task in both:
                task.cancel()
                task.add_done_callback(lambda task: task.cancelled() or task.exception())  # or asyncio logs an error

    async def _watch(self, first_check_s: float) -> NoReturn:
        """Raises WorkerError once the worker hangs. A worker with its model is first checked after `first_check_s`."""
        first_check = Deadline(first_check_s * 1000)
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            if self.has_model and not first_check.is_past:
                continue
            loading_limit = Deadline(LOADING_RESPONSE_S * 1000)
            while not await self.responds_within(RESPONSE_S):
                if self.has_model or is_suspended(self.pid) or loading_limit.is_past:
                    raise WorkerUnresponsiveError(self.paths, self.pid)
            step_s = self.last_status.step_s if self.last_status else 0.0
            if step_s > self._hung_step_s:
                raise WorkerError(ErrorCode.STOPPED, _HUNG_STEP.format(step_s))

    async def _next_status(self) -> None:
        """Waits until the worker sends its status, starts or ends."""
        self._status_changed.clear()
        await self._status_changed.wait()

    async def _send_until_answered(self, request: Request, on_draft: OnDraft | None) -> WorkerAnswer:
        for _ in range(MAX_ENDING_WORKERS):
            connection = await self._connected()
            pending = _Pending(on_draft, asyncio.get_running_loop().create_future())
            try:
                connection.send(request)
                self._pending[request.id] = pending
                answer = await pending.reply
            except asyncio.CancelledError:
                if self._pending.pop(request.id, None) and connection.failure is None:
                    connection.send(Cancel(request.id))
                raise
            except WorkerError as failure:
                is_ending = connection.failure is None or connection.status.state is WorkerState.STOPPING
                if failure.code is not ErrorCode.STOPPED or not is_ending:
                    raise
                await connection.wait_closed()  # it refused the request, or ended unread; the next one will not
            else:
                self._failure = None
                self._failures = 0
                return answer
        raise WorkerError(ErrorCode.STOPPED, "The worker keeps ending before it can answer. Try again.")

    async def _wait_for_model(self) -> None:
        await self._connected()
        while self.state in (ClientState.STARTING, ClientState.LOADING, ClientState.STOPPING):
            await self._next_status()
        if self.state is ClientState.STOPPED and self.paths.socket.exists():  # it gave way to another one
            await self._wait_for_model()
        elif self.state in (ClientState.FAILED, ClientState.BACKING_OFF):
            code = ErrorCode.MODEL if self._connection or self._failure is None else self._failure.code
            raise WorkerError(code, self.reason)

    def _record_failure(self, failure: WorkerError, weight: int = 1) -> None:
        """Counts a failure `weight` times, and begins the pause after it."""
        self._failures += weight
        pause_s = min(FIRST_PAUSE_S * 2 ** min(self._failures - 2, 9), MAX_PAUSE_S) if self._failures > 1 else 0.0
        self._not_before_s = time.monotonic() + pause_s
        self._failure = failure

    async def _connected(self) -> WorkerLink:
        """A connection to a worker that accepts requests. Joins the worker or starts it. All callers share one attempt,
        which continues when they are cancelled. Raises WorkerError, also during the pause after failures.
        """
        while self._connection is not None and not self._closed:
            if self.state is ClientState.FAILED:
                raise WorkerError(ErrorCode.MODEL, self.reason)
            if self.state is not ClientState.STOPPING:
                return self._connection
            await self._connection.wait_closed()
        if self._closed:
            raise WorkerError(ErrorCode.STOPPED, _WORKER_RESTARTED)
        if self._failure and (pause_s := self._not_before_s - time.monotonic()) > 0:
            problem = f"{self._failure} (next try in {pause_s:.1f} s; log: {self.paths.log})"
            raise WorkerError(self._failure.code, problem)
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._start(), name="worker-start")
            self._connecting.add_done_callback(lambda task: task.cancelled() or task.exception())  # or asyncio logs it
            self._announce()
        try:
            return await asyncio.shield(self._connecting)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self._closed and not (caller and caller.cancelling()):
                raise WorkerError(ErrorCode.STOPPED, _WORKER_RESTARTED) from None
            raise

    async def _start(self) -> WorkerLink:
        try:
            connecting = attach_or_start(self.paths, self.options, self._name)
            return self._adopt(await connecting)
        except WorkerError as failure:
            self._record_failure(failure)
            raise
        finally:
            self._connecting = None
            self._announce()

    def _adopt(self, connection: WorkerLink) -> WorkerLink:
        if self._connection is not None:  # two tried at the same time, and the other was first
            connection.close()
            return self._connection
        self._connection = connection
        connection.reading = asyncio.create_task(self._read_messages(connection), name="worker-client")
        self._handle(connection, connection.status)
        return connection

    async def _read_messages(self, connection: WorkerLink) -> None:
        try:
            while True:
                self._handle(connection, await connection.receive())
        except (OSError, EOFError):
            is_loading = connection.status.state is WorkerState.LOADING
            loading = "while it loaded its model; it may be too large for this machine's memory"
            message = f"The worker (process {connection.pid}) ended {loading if is_loading else 'during a request'}"
            self._disconnect(connection, WorkerError(ErrorCode.STOPPED, message))
        except ValueError as error:
            message = f"The worker sent an invalid message: {error}"
            self._disconnect(connection, WorkerError(ErrorCode.BAD_MESSAGE, message))
        except WorkerError as failure:
            self._disconnect(connection, failure)

    def _handle(self, connection: WorkerLink, message: WorkerMessage) -> None:
        if isinstance(message, Status):
            connection.status = self.last_status = message
            self._announce()
            if self._on_status:
                self._on_status(message)
            return
        if isinstance(message, Failed) and not message.id:
            raise WorkerError(message.code, message.message)
        pending = self._pending.get(getattr(message, "id", ""))
        if pending is None:
            return
        match message:
            case Draft() if pending.on_draft and not pending.reply.done():
                try:
                    pending.on_draft(message)
                except Exception:  # the caller's fault; the others still get their replies
                    log.exception("a draft could not be shown")
            case FilledHoles():
                pending.candidates.append(message)
            case NextEdits(edits=edits):
                pending.edits = edits
            case Done():
                del self._pending[message.id]
                _settle(pending.reply, WorkerAnswer(tuple(pending.candidates), message, pending.edits))
            case Failed(code=code, message=words):
                del self._pending[message.id]
                _settle(pending.reply, WorkerError(code, words))

    def _disconnect(self, connection: WorkerLink, failure: WorkerError) -> None:
        """Handles the end of a connection, expected or not. Fails all pending requests."""
        if connection.failure is not None:
            return
        connection.failure = failure
        connection.close()
        self._connection = None
        for pending in self._pending.values():
            _settle(pending.reply, failure)
        self._pending.clear()
        status = connection.status
        if status.state is WorkerState.FAILED:
            self._record_failure(WorkerError(ErrorCode.MODEL, status.detail), MAX_MODEL_FAILURES)
        elif status.state is not WorkerState.STOPPING and not self._closed:
            self._record_failure(failure)
        self._announce()

    def _announce(self) -> None:
        self._status_changed.set()
        current = (self.state, self.reason)
        if current != self._announced:
            self._announced = current
            if self._on_state:
                self._on_state(*current)


def _settle(future: asyncio.Future[_T], outcome: _T | WorkerError) -> None:
    """Sets the outcome of a future, unless it is done or cancelled."""
    if future.done():
        return
    if isinstance(outcome, WorkerError):
        future.set_exception(WorkerError(outcome.code, str(outcome)))  # a separate one each: raising adds a traceback
    else:
        future.set_result(outcome)
