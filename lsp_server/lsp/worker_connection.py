"""The session's connection to the resident worker: it opens when first used, and shows how the worker is."""

import asyncio
import logging
import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from inference.messages import ErrorCode, Status
from lsp_server.lsp import status_board
from lsp_server.lsp.progress import LoadProgress
from lsp_server.settings.launch import worker_options
from lsp_server.settings.schema import Settings
from lsp_server.worker import ClientState, WorkerClient, WorkerFailure, WorkerOptions, alive
from lsp_server.worker.failure import traceback_of

TELL_AGAIN_S = 600.0
"""After so long a user may have forgotten that the server failed before."""
_DETAIL = re.compile(r" \(|: ")
"""Where a message goes on with what may differ each time."""


class Outages:
    """A problem is told once while it lasts, and of one that comes and goes once in so long."""

    def __init__(self) -> None:
        self._lasting: set[str] = set()
        self._told_s: dict[str, float] = {}

    def is_news(self, problem: str, at_s: float) -> bool:
        """Whether to tell of this problem, empty for none, at this `time.monotonic`. It counts as told then."""
        if not problem:
            self._lasting.clear()
            return False
        kind = re.sub(r"\d+", "#", _DETAIL.split(problem)[0])
        if kind in self._lasting or at_s < self._told_s.get(kind, -TELL_AGAIN_S) + TELL_AGAIN_S:
            return False
        self._lasting.add(kind)
        self._told_s[kind] = at_s
        return True


log = logging.getLogger(__name__)
CLIENT_NAME = "infill-ls serve"
REFRESH_S = 2.0
"""How long `refresh` waits for the worker."""
END_S = 30.0
"""How long `restart` waits for the old worker to end."""


class WorkerConnection:
    """Calls `show` with each failure that the user should see, and `notify` with the state each time that changes.

    Mutable: `client` is another one after a restart.
    """

    def __init__(
        self,
        server: LanguageServer,
        show: Callable[[str, types.MessageType], None],
        notify: Callable[[dict[str, Any]], None],
    ) -> None:
        self.status = status_board.StatusBoard(notify)
        self._progress = LoadProgress(server)
        self._show = show
        self._shows_progress = False
        self._warming: asyncio.Task[None] | None = None
        self._restarts = asyncio.Lock()
        self._server_fails, self._outages = False, Outages()
        self._use(WorkerOptions())

    def configure(self, settings: Settings, *, sends_token: bool, progress: bool) -> None:
        """Say which worker it is, and whether the client displays progress. Call it before anything is asked."""
        self._shows_progress = progress
        self._use(worker_options(settings, sends_token=sends_token))

    async def loaded(self) -> WorkerClient:
        """The client once its worker has loaded its model, so that a deadline counts from there; starts one if need be.

        Raises WorkerFailure.
        """
        if self.client.state not in (ClientState.READY, ClientState.BUSY):
            await alive.loaded(self.client)
        return self.client

    def asked(self) -> AbstractContextManager[None]:
        """Inside it the user waits for an answer, and is shown what fails; of this worker that is always shown."""
        return nullcontext()

    def warm_up(self) -> None:
        """Start the worker in the background, or join the one that runs, so that the first fill finds it ready."""
        self._warming = asyncio.create_task(self._start())

    async def restart(self) -> None:
        """End the worker, once it has finished what it does, and load another. Raises WorkerFailure."""
        async with self._restarts:  # two at once would leave one of their new clients connected for ever
            await self._restart()

    async def _restart(self) -> None:
        if self._warming is not None:
            self._warming.cancel()
        await self._end_worker()
        await self._start_over()
        await self.loaded()

    async def _end_worker(self) -> None:
        """Raises WorkerFailure where it has not ended in time; one that cannot be asked is left alone."""
        try:
            async with asyncio.timeout(END_S):
                await self.client.shut_down()
        except TimeoutError:
            raise WorkerFailure(ErrorCode.STOPPED, f"The worker has not ended within {END_S:g} s") from None
        except WorkerFailure as failure:
            log.info("the worker was not asked to end: %s", failure)

    async def _start_over(self) -> None:
        old = self.client
        self._use(old.options)  # a new client has no pause after failures to wait out
        await old.close()

    async def refresh(self) -> None:
        """Ask a worker that runs how it is; do not start one for that, nor wait for one that hangs."""
        try:
            async with asyncio.timeout(REFRESH_S):
                await self.client.status()
        except (WorkerFailure, TimeoutError) as failure:
            log.info("no status: %s", failure or "the worker does not answer")

    async def close(self) -> None:
        """Leave the worker; it lives on for others."""
        if self._warming is not None:
            self._warming.cancel()
        await self.client.close()

    def _use(self, options: WorkerOptions) -> None:
        """Make a new client, which connects when it is first asked."""
        self.client = WorkerClient(options, name=CLIENT_NAME, on_status=self._on_status, on_state=self._on_state)
        self.status.log = str(self.client.paths.log)

    async def _start(self) -> None:
        try:
            await alive.load(self.client)
        except WorkerFailure as failure:
            self._show(str(failure), types.MessageType.Error)
        except Exception as error:  # our own bug, and nobody waits for this task
            log.error("the worker was not started: %s", traceback_of(error))

    def _on_state(self, state: ClientState, detail: str) -> None:
        per_request = {state, self.status.state} == {ClientState.READY, ClientState.BUSY}
        log.log(logging.DEBUG if per_request else logging.INFO, "worker: %s %s", state.value, detail)
        if state is ClientState.CLOSED:  # by us, because the editor goes
            return
        self.status.on_state(state, detail, self.client.last_status)
        if state is ClientState.FAILED and detail:
            self._show(detail, types.MessageType.Error)
        self._display()

    def _on_status(self, status: Status) -> None:
        self.status.on_status(status)
        self._tell_of_server(status.server_problem)
        self._display()

    def _tell_of_server(self, problem: str) -> None:
        """Say once that the server fails. One that comes and goes is not told of each time; its status shows it."""
        if self._outages.is_news(problem, time.monotonic()):
            self._show(problem, types.MessageType.Warning)
        if bool(problem) is not self._server_fails:
            log.warning("the model's server %s", f"fails: {problem}" if problem else "answers again")
        self._server_fails = bool(problem)

    def _display(self) -> None:
        if self._shows_progress:
            loading = self.status.state is ClientState.LOADING
            self._progress.update(loading=loading, message=self.status.detail, fraction=self.status.progress)
