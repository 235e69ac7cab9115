"""The session's connections to its workers: each opens on first use, shows failures, and reports its worker's state."""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from inference.messages import ErrorCode, Status
from inference.models.catalogue import entry_named
from inference.remote import address
from inference.terminal import format_bytes
from lsp_server.lsp.editor_connection import ProgressDisplay
from lsp_server.settings.worker_options import options_problem
from lsp_server.worker import ClientState, WorkerClient, WorkerError, WorkerOptions
from lsp_server.worker.failure import traceback_without_message

log = logging.getLogger(__name__)
STATUS = "infill/status"
STATUS_CHANGED = "infill/didChangeStatus"
CLIENT_NAME = "infill-ls serve"
REFRESH_S = 2.0
WORKER_END_S = 30.0
"""How long `restart` waits for the old worker to end."""
_SHOWN = (
    *("model", "device", "dtype", "pid", "uptime_s", "clients", "running", "waiting", "memory_bytes", "step_s"),
    *("token_ms", "prompt_token_ms", "context_tokens", "note", "choice", "better", "ahead_tokens", "ahead_hits"),
    *("server", "server_up_s", "server_problem"),
)
"""The fields of `Status` to report, in camel case."""
_DETAIL = re.compile(r" \(|: ")
"""Everything after this in a message may differ each time."""
_NEWS = ("state", "detail", "progress", "model", "serverProblem", "name", "problem")
"""The keys of a report whose changes the client is notified of."""
_FAILING = (ClientState.FAILED, ClientState.BACKING_OFF)


class WorkerSupervisor:
    """Calls `show` with failures for the user, and `notify` with each change. A restart makes a new `client`."""

    def __init__(
        self, server: LanguageServer, show: Callable[[str, types.MessageType], None], notify: Callable[[], None]
    ) -> None:
        self.shows_progress = False
        """Whether the client displays the progress of loading the model."""
        self._server = server
        self._show = show
        self._notify = notify
        self._loading: ProgressDisplay | None = None
        self._warming: asyncio.Task[None] | None = None
        self._restarts = asyncio.Lock()
        self._problem = ""
        self._shown_kinds = set[str]()
        self._is_load_reported = False
        self._last_failure: str | None = None
        self.use(WorkerOptions())
        self._notified = self._notified_state()

    @property
    def download_title(self) -> str:
        better = self.client.better_model
        return f"Download the model {better} ({format_bytes(entry_named(better).download_bytes)})"

    @property
    def no_model_message(self) -> str:
        return (
            "You are using the tiny bundled model, which knows only a little Python, because you have pulled no "
            f"model that runs here. For a real model pick the code action “{self.download_title}”, or run "
            f"`infill-ls models pull {self.client.better_model}`"
        )

    def report(self) -> dict[str, Any]:
        """The state of the worker and its model, as `infill/status` reports it (see editors/README.md)."""
        last = self.client.last_status
        names = {name: name[0] + name.title().replace("_", "")[1:] for name in _SHOWN}
        return {
            "state": self.client.state.value,
            "detail": self.client.reason,
            "progress": self._progress,
            **{key: getattr(last, name, None) for name, key in names.items()},
            "lastFailure": self._last_failure,
            "log": str(self.client.paths.log),
        }

    def use(self, options: WorkerOptions) -> None:
        """Makes a new client, which connects on its first request."""
        self.client = WorkerClient(options, name=CLIENT_NAME, on_status=self._on_status, on_state=self._on_state)

    def claim_first_report_of_load(self) -> bool:
        """True on the first call during the current load, then False."""
        was_told = self._is_load_reported
        self._is_load_reported = True
        return not was_told

    def warm_up(self) -> None:
        """Starts the worker in the background, or joins the running one, so that the first fill finds it ready."""
        self._warming = asyncio.create_task(self._start())

    async def restart(self, *, load: bool = True) -> int:
        """Ends the worker once it has finished its requests, and loads another, or leaves that to the next request.
        Returns how many other clients the old one had: their next requests go to the new one. Raises WorkerError if the
        old one does not end in time, or the new one fails.
        """
        other_clients = 0
        async with self._restarts:  # two at the same time would leave one of their new clients connected for ever
            if self._warming is not None:
                self._warming.cancel()
            try:
                async with asyncio.timeout(WORKER_END_S):
                    if status := await self.client.request_status():
                        other_clients = status.clients - 1
                        await self.client.shut_down()
            except TimeoutError:
                raise WorkerError(ErrorCode.STOPPED, f"The worker has not ended within {WORKER_END_S:g} s") from None
            except WorkerError as failure:
                log.info("the worker was not asked to end: %s", failure)
            old = self.client
            self.use(old.options)  # a new client does not wait out a pause after failures
            await old.close()
            if load:
                await self.client.load()
        return other_clients

    async def refresh(self) -> None:
        """Asks a running worker for its status; neither starts one nor waits for a hung one."""
        try:
            async with asyncio.timeout(REFRESH_S):
                await self.client.request_status()
        except (WorkerError, TimeoutError) as failure:
            log.info("no status: %s", failure or "the worker does not answer")

    async def close(self) -> None:
        """Leaves the worker, which lives on for others."""
        if self._warming is not None:
            self._warming.cancel()
        await self.client.close()

    async def _start(self) -> None:
        try:
            await self.client.load()
        except WorkerError as failure:
            self._show(str(failure), types.MessageType.Error)
        except Exception as error:  # our own bug; nothing awaits this task
            log.error("the worker was not started: %s", traceback_without_message(error))

    def _on_state(self, state: ClientState, reason: str) -> None:
        if state is ClientState.CLOSED:  # by us, because the editor is leaving or the worker restarts
            return
        self._is_load_reported = self._is_load_reported and state in (ClientState.STARTING, ClientState.LOADING)
        if state in _FAILING:
            self._last_failure = reason or self._last_failure
        if state is ClientState.FAILED and reason:
            self._show(reason, types.MessageType.Error)
        self._changed()

    def _on_status(self, status: Status) -> None:
        """Shows each kind of failure of the model's server once; the status says whenever it fails."""
        problem = status.server_problem
        self._last_failure = problem or self._last_failure
        kind = re.sub(r"\d+", "#", _DETAIL.split(problem)[0])
        if problem and kind not in self._shown_kinds:
            self._shown_kinds.add(kind)
            self._show(problem, types.MessageType.Warning)
        if problem and not self._problem:
            log.warning("the model's server fails: %s", problem)
        self._problem = problem
        self._changed()

    def _changed(self) -> None:
        news = self._notified_state()
        if news != self._notified:
            self._notified = news
            self._notify()
        if self.shows_progress and self.client.state is ClientState.LOADING:
            if self._loading is None:
                self._loading = ProgressDisplay(self._server, "loading the model", cancellable=False)
                self._loading.create_after(0)
            self._loading.report(self.client.reason, int(self._progress * 100))
        elif self._loading is not None:
            self._loading.end()
            self._loading = None

    def _notified_state(self) -> list[object]:
        report = self.report()
        return [report.get(key) for key in _NEWS]

    @property
    def _progress(self) -> float:
        """How much of the model is loaded, 0 to 1; 0 when it is not being loaded."""
        last = self.client.last_status
        return round(last.progress, 2) if last and self.client.state is ClientState.LOADING else 0.0


class PartnerSupervisor(WorkerSupervisor):
    """The connection to the partner: a separate worker, started when the partner is first asked."""

    @property
    def problem(self) -> str:
        """Why it cannot be asked, or its last failure; empty if all is well."""
        if invalid := options_problem(self.client.options):
            return invalid
        if self.client.state in _FAILING:
            return self.client.reason
        return self.client.last_status.server_problem if self.client.last_status else ""

    @property
    def name(self) -> str:
        """Its name for users: its model if known, otherwise its address."""
        last = self.client.last_status
        if last is not None and last.model and not address.is_url(last.model):
            return last.model
        return self.client.options.server_model or self.client.options.model.partition("://")[2] or "the partner"

    @property
    def action_title(self) -> str:
        """The kind of request it takes, as far as known: never waits for it."""
        sees = self.client.options.partner == "chat" if self._sees_drafts is None else self._sees_drafts
        return f"{'Refine' if sees else 'Rewrite'} with {self.name}"

    def report(self) -> dict[str, Any]:
        last = self.client.last_status
        return {
            "name": self.name,
            "state": self.client.state.value,
            "problem": self.problem,
            "kind": (last.partner if last else "") or self.client.options.partner,
            "seesDrafts": self._sees_drafts,
            "server": self.client.options.model,
            "log": str(self.client.paths.log),
        }

    @property
    def _sees_drafts(self) -> bool | None:
        """Whether it sees the text it is to improve; None if not known yet."""
        last = self.client.last_status
        is_known = last is not None and last.state.value in (ClientState.READY, ClientState.BUSY)
        return last.sees_drafts if last and is_known else None
