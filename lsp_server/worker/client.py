"""Asks the resident worker to fill, and tracks its state. Starts the worker when needed, and again when it dies."""

import asyncio
from collections.abc import Callable
from typing import Self

from inference.messages import ErrorCode, Request, Status, WorkerOptions, WorkerState
from lsp_server.worker.connect import STATUS_S, Attached, NotListeningError, join
from lsp_server.worker.exchange import Exchange, OnDraft, WorkerAnswer
from lsp_server.worker.failure import WorkerFailure
from lsp_server.worker.options import resolved
from lsp_server.worker.paths import WorkerPaths, paths_of
from lsp_server.worker.spawn import attach_or_start
from lsp_server.worker.state import OF_WORKER, Backoff, ClientState

_LEFT = "The worker restarted. Try again."
REFUSALS = 3
"""How many ending workers a request may meet before it gives up."""
MODEL_FAILURES = 4
"""How many failures a model that cannot be loaded counts for: retrying soon would only burden the machine."""


class WorkerClient:
    """A client of the worker of `options`. `on_status` and `on_state` receive its status and this client's state."""

    def __init__(
        self,
        options: WorkerOptions,
        *,
        name: str,
        paths: WorkerPaths | None = None,
        on_status: Callable[[Status], None] | None = None,
        on_state: Callable[[ClientState, str], None] | None = None,
    ) -> None:
        self.options = resolved(options)
        self.paths = paths or paths_of(options)
        self.last_status: Status | None = None
        self._name = name
        self._on_status = on_status
        self._on_state = on_state
        self._announced: tuple[ClientState, str] = (ClientState.STOPPED, "")
        self._backoff = Backoff()
        self._exchange: Exchange | None = None
        self._connecting: asyncio.Task[Exchange] | None = None
        self._changed = asyncio.Event()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def state(self) -> ClientState:
        """This client's state with respect to its worker."""
        if self._closed:
            return ClientState.CLOSED
        if self._exchange is not None:
            return OF_WORKER[self._exchange.status.state] if self._exchange.status else ClientState.STARTING
        if self._connecting is not None:
            return ClientState.STARTING
        if not self._backoff.reason:
            return ClientState.STOPPED
        return ClientState.BACKING_OFF if self._backoff.remaining_s else ClientState.FAILED

    @property
    def reason(self) -> str:
        """Why the worker failed, or what it is doing while it loads; otherwise empty."""
        if self._exchange is not None:
            return self._exchange.status.detail if self._exchange.status else ""
        return self._backoff.reason

    @property
    def pid(self) -> int | None:
        """The process of the worker that this client is connected to."""
        return self._exchange.pid if self._exchange else None

    async def infill(self, request: Request, on_draft: OnDraft | None = None) -> WorkerAnswer:
        """The answer to `request`, whose id may repeat. Starts the worker if needed and waits for its model.

        Cancelling this cancels the request in the worker; a start continues. Raises WorkerFailure.
        """
        for _ in range(REFUSALS):
            exchange = await self._connected()
            try:
                fill = await exchange.ask(request, on_draft)
            except WorkerFailure as failure:
                if failure.code is not ErrorCode.STOPPED or exchange.failure is not None:
                    raise
                await exchange.closed.wait()  # it was about to end and refused requests; the next one will not
            else:
                self._backoff.succeeded()
                return fill
        raise WorkerFailure(ErrorCode.STOPPED, "The worker keeps ending before it can answer; ask again")

    def amend(self, request_id: str, hole: int, text: str) -> None:
        """Pins `text`, the user's whole text at the start of a hole, in the running request of this id, if there is
        one.

        Denoising continues if it agrees, and otherwise restarts from there. Raises WorkerFailure.
        """
        if self._exchange is not None:
            self._exchange.amend(request_id, hole, text)

    async def status(self, start: bool = False) -> Status | None:
        """The worker's current status; None if no worker runs and `start` is False. Raises WorkerFailure."""
        try:
            found = None if start else self._exchange or self._adopt(await join(self.paths, self._name, STATUS_S))
            exchange = found or await self._connected()
        except NotListeningError:
            return None
        return await exchange.ask_status()

    async def settled(self) -> None:
        """Starts the worker if needed, and waits until it has its model, even if hung. Raises WorkerFailure."""
        while self.state not in (ClientState.READY, ClientState.BUSY):
            await self.load()

    async def load(self) -> None:
        """The same, but does not restart the worker if someone ends it while it loads."""
        await self.status(start=True)
        while self.state in (ClientState.STARTING, ClientState.LOADING, ClientState.STOPPING):
            self._changed.clear()
            await self._changed.wait()
        if self.state is ClientState.STOPPED and self.paths.socket.exists():  # it gave way to another one
            await self.load()
        elif self.state in (ClientState.FAILED, ClientState.BACKING_OFF):
            raise WorkerFailure(ErrorCode.MODEL if self._exchange else self._backoff.code, self.reason)

    async def answers(self, limit_s: float) -> bool:
        """Whether the connected worker says anything within `limit_s`; True without one."""
        return self._exchange is None or await self._exchange.answers(limit_s)

    async def shut_down(self) -> bool:
        """Asks the worker to finish its requests and end, and waits for that; False if none runs."""
        if await self.status() is None or self._exchange is None:
            return False
        exchange = self._exchange
        exchange.shut_down()
        await exchange.closed.wait()
        return True

    async def close(self) -> None:
        """Leaves the worker, which stays for other clients. Pending requests fail with `STOPPED`."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._exchange is not None:
            await self._exchange.close()
        self._announce()

    async def _connected(self) -> Exchange:
        """A connection to a worker that accepts requests. Raises WorkerFailure."""
        while True:
            if self._closed:
                raise WorkerFailure(ErrorCode.STOPPED, _LEFT)
            if self._exchange is None:
                await self._backoff.wait_out(self.paths.log)
                return await self._connect()
            if not self._exchange.retiring:
                return self._exchange
            if self.state is ClientState.FAILED:
                raise WorkerFailure(ErrorCode.MODEL, self.reason)
            await self._exchange.closed.wait()

    async def _connect(self) -> Exchange:
        """Joins the worker or starts it. All callers share one attempt, which continues when they are cancelled."""
        if self._exchange is not None:
            return self._exchange
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._start(), name="worker-start")
            self._connecting.add_done_callback(lambda task: task.cancelled() or task.exception())  # or asyncio logs it
            self._announce()
        try:
            return await asyncio.shield(self._connecting)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self._closed and not (caller and caller.cancelling()):
                raise WorkerFailure(ErrorCode.STOPPED, _LEFT) from None
            raise

    async def _start(self) -> Exchange:
        try:
            return self._adopt(await attach_or_start(self.paths, self.options, self._name))
        except WorkerFailure as failure:
            self._backoff.failed(str(failure), failure.code)
            raise
        finally:
            self._connecting = None
            self._announce()

    def _adopt(self, attached: Attached) -> Exchange:
        if self._exchange is not None:  # two tried at the same time, and the other was first
            attached.stream.close()
            return self._exchange
        self._exchange = Exchange(attached, self._take_status, self._lost)
        return self._exchange

    def _take_status(self, status: Status) -> None:
        self.last_status = status
        self._announce()
        if self._on_status:
            self._on_status(status)

    def _lost(self, exchange: Exchange, failure: WorkerFailure) -> None:
        """A connection has ended: as announced, because we left, or because the worker failed."""
        state = exchange.status.state if exchange.status else None
        if state is WorkerState.FAILED:
            self._backoff.failed(exchange.status.detail if exchange.status else "", ErrorCode.MODEL, MODEL_FAILURES)
        elif state is not WorkerState.STOPPING and not self._closed:
            self._backoff.failed(str(failure), failure.code)
        if self._exchange is exchange:
            self._exchange = None
        self._announce()

    def _announce(self) -> None:
        """Calls `on_state` if anything has changed."""
        now = (self.state, self.reason)
        if now != self._announced:
            self._announced = now
            self._changed.set()
            if self._on_state:
                self._on_state(*now)
