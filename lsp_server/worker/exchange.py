"""Sends requests over one connection to a worker, and distributes the replies. Does not know how the worker started."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from inference.messages import (
    Amend,
    Cancel,
    Candidate,
    Done,
    Draft,
    Edit,
    ErrorCode,
    Failed,
    NextEdits,
    Request,
    Shutdown,
    Status,
    StatusRequest,
    WorkerMessage,
    WorkerState,
)
from lsp_server.worker.connect import Attached
from lsp_server.worker.failure import WorkerFailure

log = logging.getLogger(__name__)
_T = TypeVar("_T")
OnDraft = Callable[[Draft], None]


@dataclass(frozen=True)
class WorkerAnswer:
    """The answer to one request: the candidates, best first, and how it ended. Without candidates, none was ready."""

    candidates: tuple[Candidate, ...]
    done: Done
    edits: tuple[Edit, ...] = ()
    """The answer to a `NextEditRequest`."""


@dataclass(eq=False)
class _Pending:
    """A request without its final reply. `reply` is done once it is no longer wanted."""

    caller_id: str
    on_draft: OnDraft | None
    reply: asyncio.Future[WorkerAnswer]
    candidates: list[Candidate] = field(default_factory=list)
    edits: tuple[Edit, ...] = ()


class Exchange:
    """Requests out, replies in. After `closed` is set, all pending requests have failed and no more can be sent."""

    def __init__(
        self,
        attached: Attached,
        on_status: Callable[[Status], None],
        on_end: Callable[["Exchange", WorkerFailure], None],
    ) -> None:
        self.pid = attached.welcome.pid
        self.status: Status | None = None
        self.closed = asyncio.Event()
        self.failure: WorkerFailure | None = None
        self._stream = attached.stream
        self._on_status = on_status
        self._on_end = on_end
        self._last_id = 0
        self._pending: dict[str, _Pending] = {}
        self._askers: list[asyncio.Future[Status]] = []
        self._reading = asyncio.create_task(self._read(), name="worker-exchange")

    @property
    def retiring(self) -> bool:
        """Whether the worker accepts no more requests: it is ending, or could not load its model."""
        return self.status is not None and self.status.state in (WorkerState.STOPPING, WorkerState.FAILED)

    async def ask(self, request: Request, on_draft: OnDraft | None = None) -> WorkerAnswer:
        """The answer to `request`. Cancelling this cancels it in the worker. Raises WorkerFailure."""
        self._last_id += 1
        wire_id = str(self._last_id)
        pending = _Pending(request.id, on_draft, asyncio.get_running_loop().create_future())
        self._send(msgspec.structs.replace(request, id=wire_id))
        self._pending[wire_id] = pending
        try:
            return await pending.reply
        except asyncio.CancelledError:
            if wire_id in self._pending and not self.closed.is_set():
                self._send(Cancel(wire_id))
            raise

    def amend(self, caller_id: str, hole: int, text: str) -> None:
        """Tells the pending requests of this id what the user typed. Raises WorkerFailure."""
        for wire_id, pending in self._pending.items():
            if pending.caller_id == caller_id:
                self._send(Amend(wire_id, hole, text))

    async def ask_status(self) -> Status:
        """The worker's current state. Raises WorkerFailure."""
        asker: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self._send(StatusRequest())
        self._askers.append(asker)
        return await asker

    async def answers(self, limit_s: float) -> bool:
        """Whether the worker reports its status within `limit_s`; True once it has ended, as every waiter learns."""
        try:
            async with asyncio.timeout(limit_s):
                await self.ask_status()
        except TimeoutError:
            return False
        except WorkerFailure:
            pass
        return True

    def shut_down(self) -> None:
        """Asks the worker to end. Raises WorkerFailure."""
        self._send(Shutdown())

    async def close(self) -> None:
        """Leaves the worker; pending requests fail."""
        self._end(WorkerFailure(ErrorCode.STOPPED, "The connection to the worker was closed"))
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading

    def _send(self, message: Request | Cancel | Amend | StatusRequest | Shutdown) -> None:
        if self.failure:
            raise self.failure
        try:
            self._stream.send(message)
        except ValueError as error:  # too long, or a str that is not valid Unicode
            raise WorkerFailure(ErrorCode.BAD_REQUEST, f"The request cannot be sent: {error}") from error

    async def _read(self) -> None:
        try:
            while True:
                self._take(await self._stream.receive())
        except (OSError, EOFError):
            self._end(WorkerFailure(ErrorCode.STOPPED, f"The worker (process {self.pid}) ended {self._when()}"))
        except ValueError as error:
            self._end(WorkerFailure(ErrorCode.BAD_MESSAGE, f"The worker sent an invalid message: {error}"))
        except WorkerFailure as failure:
            self._end(failure)

    def _when(self) -> str:
        """The worker's activity at its last status report."""
        if self.status is not None and self.status.state is WorkerState.LOADING:
            return "while it loaded its model; it may be too large for this machine's memory"
        return "in mid-request"

    def _take(self, message: WorkerMessage) -> None:
        match message:
            case Status():
                self._take_status(message)
            case Draft(id=wire_id):
                self._take_draft(self._pending.get(wire_id), message)
            case Candidate(id=wire_id):
                if pending := self._pending.get(wire_id):
                    pending.candidates.append(msgspec.structs.replace(message, id=pending.caller_id))
            case NextEdits(id=wire_id, edits=edits):
                if pending := self._pending.get(wire_id):
                    pending.edits = edits
            case Done(id=wire_id):
                if pending := self._pending.pop(wire_id, None):
                    done = msgspec.structs.replace(message, id=pending.caller_id)
                    _settle(pending.reply, WorkerAnswer(tuple(pending.candidates), done, pending.edits))
            case Failed(id="", code=code, message=words):
                raise WorkerFailure(code, words)
            case Failed(id=wire_id, code=code, message=words):
                if pending := self._pending.pop(wire_id, None):
                    _settle(pending.reply, WorkerFailure(code, words))

    def _take_status(self, status: Status) -> None:
        self.status = status
        for asker in self._askers:
            _settle(asker, status)
        self._askers.clear()
        self._on_status(status)

    def _take_draft(self, pending: _Pending | None, draft: Draft) -> None:
        if pending and pending.on_draft and not pending.reply.done():
            try:
                pending.on_draft(msgspec.structs.replace(draft, id=pending.caller_id))
            except Exception:
                log.exception("a draft could not be shown")  # the caller's fault; the others still get their replies

    def _end(self, failure: WorkerFailure) -> None:
        """Fails everything pending, once."""
        if self.failure is None:
            self.failure = failure
            self._stream.close()
            for pending in self._pending.values():
                _settle(pending.reply, failure)
            for asker in self._askers:
                _settle(asker, failure)
            self._pending.clear()
            self._askers.clear()
            self.closed.set()
            self._on_end(self, failure)


def _settle(future: asyncio.Future[_T], outcome: _T | WorkerFailure) -> None:
    """Gives `future` its outcome, unless it is no longer wanted."""
    if future.done():
        return
    if isinstance(outcome, WorkerFailure):
        future.set_exception(WorkerFailure(outcome.code, str(outcome)))  # a separate one each: raising adds a traceback
    else:
        future.set_result(outcome)
