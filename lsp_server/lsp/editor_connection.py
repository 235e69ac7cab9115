"""The session's connection to its editor: messages, requests and progress displays, apart from replies."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

T = TypeVar("T")
log = logging.getLogger(__name__)
Report = Callable[[str, int], None]
"""Reports progress: a message and a percentage."""

PROGRESS_DELAY_S = 1.0
"""Work that finishes sooner gets no display, unless the client sent its own token."""
INTERVAL_S = 0.1
"""More frequent reports would only make a display flicker."""
_numbers = count(1)


class StoppedByUser(Exception):
    """The user stopped the work from its progress display."""


class ProgressDisplay:
    """One progress display, under the client's `token` or ours."""

    def __init__(
        self, server: LanguageServer, title: str, token: types.ProgressToken | None = None, *, cancellable: bool = True
    ) -> None:
        self.token: types.ProgressToken = f"infill-ls/{next(_numbers)}" if token is None else token
        self._server = server
        self._title = f"infill-ls: {title}"
        self._state: dict[str, Any] = {"cancellable": cancellable or None, "message": None, "percentage": 0}
        self._shown = False
        self._ended = asyncio.Event()
        self._creating: asyncio.Task[None] | None = None
        self._reported_s = float("-inf")
        if token is not None:
            self._begin()

    def create_after(self, delay_s: float) -> None:
        """Requests a display under our token, unless the work ends within `delay_s`."""
        self._creating = asyncio.create_task(self._create(delay_s))

    def report(self, message: str, percentage: int) -> None:
        """Reports progress; the percentage never falls."""
        self._state["message"] = message or None
        self._state["percentage"] = max(self._state["percentage"], min(percentage, 100))
        now_s = time.monotonic()
        if self._shown and not self._ended.is_set() and now_s - self._reported_s >= INTERVAL_S:
            self._reported_s = now_s
            self._send(types.WorkDoneProgressReport(**self._state))

    def end(self) -> None:
        if self._shown and not self._ended.is_set():
            self._send(types.WorkDoneProgressEnd())
        self._ended.set()

    async def _create(self, delay_s: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), delay_s)
            return
        with suppress(Exception):  # the client refuses, so there is nothing to show
            await self._server.window_work_done_progress_create_async(types.WorkDoneProgressCreateParams(self.token))
            self._begin()

    def _begin(self) -> None:
        if not self._ended.is_set():
            self._shown = True
            self._send(types.WorkDoneProgressBegin(self._title, **self._state))

    def _send(
        self, value: types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd
    ) -> None:
        self._server.progress(types.ProgressParams(token=self.token, value=value))


class EditorConnection:
    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self.takes_notifications = False
        """Whether the client has asked for our own notifications."""
        self._working: dict[types.ProgressToken, asyncio.Future[Any]] = {}
        """The work that can be displayed and stopped."""
        self._shown: set[str] = set()
        self._configuration_round = 0

    def show(self, message: str, kind: types.MessageType) -> None:
        self._server.window_show_message(types.ShowMessageParams(type=kind, message=f"infill-ls: {message}"))

    def show_once(self, message: str, kind: types.MessageType) -> None:
        if message not in self._shown:
            self._shown.add(message)
            self.show(message, kind)

    def notify(self, method: str, params: Any) -> None:
        """Sends a notification of our own, if the client has asked for these."""
        if self.takes_notifications:
            self._server.protocol.notify(method, params)

    async def run_with_progress(
        self, title: str, work: Callable[[Report], Awaitable[T]], *, token: types.ProgressToken | None, may_create: bool
    ) -> T:
        """The result of `work`, shown under the client's `token` or, if `may_create`, ours. Raises StoppedByUser."""
        display = ProgressDisplay(self._server, title, token)
        task = asyncio.ensure_future(work(display.report))
        if token is None and may_create:
            display.create_after(PROGRESS_DELAY_S)
        self._working[display.token] = task
        try:
            return await task
        except asyncio.CancelledError:
            if (waiting := asyncio.current_task()) is not None and waiting.cancelling():
                raise
            raise StoppedByUser from None
        finally:
            task.cancel()
            if self._working.get(display.token) is task:
                del self._working[display.token]
            display.end()

    def cancel(self, token: types.ProgressToken) -> None:
        """The user stopped work from its display. Ignores work that has ended or was never ours."""
        if task := self._working.get(token):
            task.cancel()

    async def apply_edit(self, edit: types.WorkspaceEdit, label: str) -> tuple[bool, str | None]:
        """Has the client apply `edit`, which it must support. Returns whether it did, and if not, why."""
        applying = self._server.workspace_apply_edit_async(types.ApplyWorkspaceEditParams(edit, label))
        try:
            result = await asyncio.shield(applying)  # the answer is processed even if nobody waits for it
        except JsonRpcException as error:
            return False, f"the editor failed to apply the edit: {error.message}"
        return result.applied, None if result.applied else result.failure_reason or "the editor did not apply the edit"

    async def request_configuration(self, items: Sequence[types.ConfigurationItem]) -> Sequence[Any] | None:
        """The client's settings for `items`; None if it does not answer, or a newer request replaced this one."""
        self._configuration_round += 1
        this_round = self._configuration_round
        try:
            settings = await self._server.workspace_configuration_async(types.ConfigurationParams(items=list(items)))
        except Exception as error:  # the client refused; keep what it sent before
            log.info("no configuration: %s", type(error).__name__)
            return None
        return settings if this_round == self._configuration_round else None

    async def register_notification(self, method: str) -> None:
        """Subscribes to a notification; a client may refuse."""
        registration = types.RegistrationParams([types.Registration(f"infill-ls/{method}", method)])
        with suppress(Exception):
            await self._server.client_register_capability_async(registration)
