"""What the server asks and tells its editor: messages, edits, settings and progress displays."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any, TypeVar

from lsprotocol import types
from msgspec import Struct

from lsp_server.lsp.dispatch import Conversation, ReplyError, Write, read_raw

T = TypeVar("T")
log = logging.getLogger(__name__)
Report = Callable[[str, int], None]
"""Reports progress: a message and a percentage."""

PATIENCE_S = 1.0
"""Work that finishes sooner gets no display, unless the client sent its own token."""
INTERVAL_S = 0.1
"""More frequent reports would only make a display flicker."""
_numbers = count(1)


class StoppedByUser(Exception):
    """The user stopped the work from its progress display."""


class EditApplied(Struct, frozen=True, rename="camel"):
    """The answer to `workspace/applyEdit`."""

    applied: bool
    failure_reason: str | None = None


class EditorConnection(Conversation):
    def __init__(self, write: Write) -> None:
        super().__init__(write)
        self._working: dict[types.ProgressToken, asyncio.Future[Any]] = {}
        """The work that can be displayed and stopped."""
        self._shown: set[str] = set()
        self._configuration_round = 0

    def show(self, message: str, kind: types.MessageType) -> None:
        self.notify(types.WINDOW_SHOW_MESSAGE, types.ShowMessageParams(kind, f"infill-ls: {message}"))

    def show_once(self, message: str, kind: types.MessageType) -> None:
        if message not in self._shown:
            self._shown.add(message)
            self.show(message, kind)

    async def showing_progress(
        self, title: str, work: Callable[[Report], Awaitable[T]], *, token: types.ProgressToken | None, may_create: bool
    ) -> T:
        """The result of `work`, shown under the client's `token` or, if `may_create`, ours. Raises StoppedByUser."""
        display = ProgressDisplay(self, title, token, patience_s=PATIENCE_S if may_create else None)
        task = asyncio.ensure_future(work(display.report))
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

    def stop(self, token: types.ProgressToken) -> None:
        """The user stopped work from its display. Ignores work that has ended or was never ours."""
        if task := self._working.get(token):
            task.cancel()

    async def apply_edit(self, edit: types.WorkspaceEdit, label: str) -> tuple[bool, str | None]:
        """Has the client apply `edit`, which it must support. Returns whether it did, and if not, why."""
        method = types.WORKSPACE_APPLY_EDIT
        try:
            answer = await self.request(method, types.ApplyWorkspaceEditParams(edit, label))
            found: EditApplied = read_raw(f"answer to {method}", answer, EditApplied)
        except ReplyError as error:
            return False, f"the editor failed to apply the edit: {error}"
        return found.applied, None if found.applied else found.failure_reason or "the editor did not apply the edit"

    async def configuration(self, items: Sequence[types.ConfigurationItem]) -> Sequence[Any] | None:
        """The client's settings for `items`; None if it has none, or a newer request replaced this one."""
        self._configuration_round += 1
        this_round = self._configuration_round
        found = await self.asked(types.WORKSPACE_CONFIGURATION, types.ConfigurationParams(list(items)))
        return found if isinstance(found, list) and this_round == self._configuration_round else None

    async def register(self, method: str) -> None:
        """Subscribes to a notification; a client may refuse."""
        wanted = types.RegistrationParams([types.Registration(f"infill-ls/{method}", method)])
        await self.asked(types.CLIENT_REGISTER_CAPABILITY, wanted)

    async def asked(self, method: str, params: Any) -> Any:
        """The client's answer; False if it refuses."""
        try:
            return await self.request(method, params)
        except ReplyError as error:
            log.info("the client refuses %s: %s", method, error)
            return False


class ProgressDisplay:
    """One progress display: under the client's `token`, otherwise under ours if the work takes longer than `patience_s`
    (None: never) and the client agrees.
    """

    def __init__(
        self,
        editor: EditorConnection,
        title: str,
        token: types.ProgressToken | None = None,
        *,
        patience_s: float | None,
        cancellable: bool = True,
    ) -> None:
        self.token: types.ProgressToken = f"infill-ls/{next(_numbers)}" if token is None else token
        self._editor = editor
        self._title = f"infill-ls: {title}"
        self._state: dict[str, Any] = {"cancellable": cancellable or None, "message": None, "percentage": 0}
        self._is_shown = False
        self._creating: asyncio.Task[None] | None = None
        self._reported_s = float("-inf")
        if token is not None:
            self._begin()
        elif patience_s is not None:
            self._creating = asyncio.create_task(self._create(patience_s))

    def report(self, message: str, percentage: int) -> None:
        """Reports progress; the percentage never falls."""
        self._state["message"] = message or None
        self._state["percentage"] = max(self._state["percentage"], min(percentage, 100))
        now_s = time.monotonic()
        if self._is_shown and now_s - self._reported_s >= INTERVAL_S:
            self._reported_s = now_s
            self._send(types.WorkDoneProgressReport(**self._state))

    def end(self) -> None:
        if self._creating is not None:
            self._creating.cancel()
        if self._is_shown:
            self._is_shown = False
            self._send(types.WorkDoneProgressEnd())

    async def _create(self, patience_s: float) -> None:
        await asyncio.sleep(patience_s)
        params = types.WorkDoneProgressCreateParams(self.token)
        if await self._editor.asked(types.WINDOW_WORK_DONE_PROGRESS_CREATE, params) is not False:
            self._begin()

    def _begin(self) -> None:
        self._is_shown = True
        self._send(types.WorkDoneProgressBegin(self._title, **self._state))

    def _send(self, value: Any) -> None:
        self._editor.notify(types.PROGRESS, types.ProgressParams(self.token, value))
