"""The session's connection to the resident worker: opens on first use, and shows the worker's state."""

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
from inference.models.catalogue import AUTO
from lsp_server.lsp import status_board
from lsp_server.lsp.progress import LoadProgress
from lsp_server.settings.launch import worker_options
from lsp_server.settings.schema import Settings
from lsp_server.worker import ClientState, Deadline, WorkerClient, WorkerFailure, WorkerOptions
from lsp_server.worker.failure import traceback_of

TELL_AGAIN_S = 600.0
"""After this long a user may have forgotten an earlier server failure."""
_DETAIL = re.compile(r" \(|: ")
"""Everything after this in a message may differ each time."""


class Outages:
    """Reports a problem once while it lasts, and an intermittent one at most once per interval."""

    def __init__(self) -> None:
        self._lasting: set[str] = set()
        self._told_s: dict[str, float] = {}

    def is_news(self, problem: str, at_s: float) -> bool:
        """Whether to report this problem (empty: none) at this `time.monotonic`. Assumes that the caller does."""
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
    """Calls `show` with failures for the user, and `notify` with each change. A restart makes a new `client`."""

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
        self._server_fails = False
        self._outages = Outages()
        self._told_of_load = False
        self._use(WorkerOptions())

    def configure(self, settings: Settings, *, sends_token: bool, progress: bool) -> None:
        """Sets the worker, and whether the client displays progress. Must be called before any request."""
        self._shows_progress = progress
        self._use(worker_options(settings, sends_token=sends_token))

    async def loaded(self, deadline: Deadline | None = None) -> WorkerClient:
        """The client once its worker, started if needed, has loaded its model. Raises as `WorkerClient.ask`."""
        await self.client.load(deadline)
        return self.client

    def is_news_of_load(self) -> bool:
        """Whether nobody has asked this yet during the current load."""
        told = self._told_of_load
        self._told_of_load = True
        return not told

    def asked(self) -> AbstractContextManager[None]:
        """While it is open, the user waits for an answer and sees failures; this worker always shows its failures."""
        return nullcontext()

    def warm_up(self) -> None:
        """Starts the worker in the background, or joins the running one, so that the first fill finds it ready."""
        self._warming = asyncio.create_task(self._start())

    async def restart(self) -> None:
        """Ends the worker once it has finished its requests, and loads another. Raises WorkerFailure."""
        async with self._restarts:  # two at the same time would leave one of their new clients connected for ever
            if self._warming is not None:
                self._warming.cancel()
            await self._end_worker()
            await self._start_over()
            await self.loaded()

    async def _end_worker(self) -> None:
        """Raises WorkerFailure if it does not end in time; leaves it alone if it does not answer."""
        try:
            async with asyncio.timeout(END_S):
                await self.client.shut_down()
        except TimeoutError:
            raise WorkerFailure(ErrorCode.STOPPED, f"The worker has not ended within {END_S:g} s") from None
        except WorkerFailure as failure:
            log.info("the worker was not asked to end: %s", failure)

    async def _start_over(self) -> None:
        old = self.client
        self._use(old.options)  # a new client does not wait out a pause after failures
        await old.close()

    async def refresh(self) -> None:
        """Asks a running worker for its status; neither starts one nor waits for a hung one."""
        try:
            async with asyncio.timeout(REFRESH_S):
                await self.client.status()
        except (WorkerFailure, TimeoutError) as failure:
            log.info("no status: %s", failure or "the worker does not answer")

    async def close(self) -> None:
        """Leaves the worker, which lives on for others."""
        if self._warming is not None:
            self._warming.cancel()
        await self.client.close()

    def _use(self, options: WorkerOptions) -> None:
        """Makes a new client, which connects on its first request."""
        self.client = WorkerClient(options, name=CLIENT_NAME, on_status=self._on_status, on_state=self._on_state)
        self.status.log = str(self.client.paths.log)
        self.status.is_auto = options.model == AUTO

    async def _start(self) -> None:
        try:
            await self.client.load()
        except WorkerFailure as failure:
            self._show(str(failure), types.MessageType.Error)
        except Exception as error:  # our own bug; nothing awaits this task
            log.error("the worker was not started: %s", traceback_of(error))

    def _on_state(self, state: ClientState, detail: str) -> None:
        per_request = {state, self.status.state} == {ClientState.READY, ClientState.BUSY}
        log.log(logging.DEBUG if per_request else logging.INFO, "worker: %s %s", state.value, detail)
        if state is ClientState.CLOSED:  # by us, because the editor is leaving
            return
        self._told_of_load = self._told_of_load and state in (ClientState.STARTING, ClientState.LOADING)
        self.status.on_state(state, detail, self.client.last_status)
        if state is ClientState.FAILED and detail:
            self._show(detail, types.MessageType.Error)
        self._display()

    def _on_status(self, status: Status) -> None:
        self.status.on_status(status)
        self._tell_of_server(status.server_problem)
        self._display()

    def _tell_of_server(self, problem: str) -> None:
        """Reports once that the server fails. An intermittent failure appears only in the status."""
        if self._outages.is_news(problem, time.monotonic()):
            self._show(problem, types.MessageType.Warning)
        if bool(problem) is not self._server_fails:
            log.warning("the model's server %s", f"fails: {problem}" if problem else "answers again")
        self._server_fails = bool(problem)

    def _display(self) -> None:
        if self._shows_progress:
            loading = self.status.state is ClientState.LOADING
            self._progress.update(loading=loading, message=self.status.detail, fraction=self.status.progress)
