"""Work that the user waits for: shown by the editor's progress display, and stopped from there.

pygls' own bookkeeping is not used: it keeps each token for ever. Knows neither documents nor the worker.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer

T = TypeVar("T")
Token = int | str
Report = Callable[[str, int], None]
"""Told how far the work is: some words, and a percentage."""

PATIENCE_S = 1.0
"""Work that is done sooner is not shown, unless the client has asked for it with a token of its own."""
INTERVAL_S = 0.1
"""Reports in between would only make the display flicker."""
_numbers = count(1)


class StoppedByUser(Exception):
    """The work was cancelled from the progress display."""


class ProgressTracker:
    """All work of a session that can be shown. Holds a token only while its work runs."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._tasks: dict[Token, asyncio.Future[Any]] = {}
        self._creating: set[asyncio.Task[None]] = set()

    async def run(
        self, title: str, work: Callable[[Report], Awaitable[T]], *, token: Token | None, may_create: bool
    ) -> T:
        """The result of `work`, shown under the client's `token`, or where it has none and `may_create`, under ours.

        Raises StoppedByUser. Cancelling this cancels the work. When it returns or raises, the display has ended.
        """
        display = _Display(self._server, title, token)
        task = asyncio.ensure_future(work(display.report))
        if token is None and may_create:
            creating = asyncio.create_task(display.create())
            self._creating.add(creating)  # asyncio itself would not keep it alive
            creating.add_done_callback(self._creating.discard)
        self._tasks[display.token] = task
        try:
            return await task
        except asyncio.CancelledError:
            if (waiting := asyncio.current_task()) is not None and waiting.cancelling():
                raise
            raise StoppedByUser from None
        finally:
            task.cancel()
            if self._tasks.get(display.token) is task:
                del self._tasks[display.token]
            display.end()

    def cancel(self, token: Token) -> None:
        """The user wants no more of it. Work that has ended, or was never ours, stays as it is."""
        if task := self._tasks.get(token):
            task.cancel()


class _Display:
    """One progress display: begun at most once, and ended if it was begun."""

    def __init__(self, server: LanguageServer, title: str, token: Token | None) -> None:
        self.token: Token = f"infill-ls/work/{next(_numbers)}" if token is None else token
        self._server = server
        self._title = f"infill-ls: {title}"
        self._shown = False
        self._ended = asyncio.Event()
        self._message, self._percentage, self._reported_s = "", 0, 0.0
        if token is not None:
            self._begin()

    async def create(self) -> None:
        """Ask the client for a display of our own, once the work has taken a while."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), PATIENCE_S)
            return
        with suppress(Exception):  # a client that would not show it need not
            await self._server.window_work_done_progress_create_async(types.WorkDoneProgressCreateParams(self.token))
            self._begin()

    def report(self, message: str, percentage: int) -> None:
        """How far it is."""
        self._message, self._percentage = message, max(self._percentage, min(percentage, 100))
        now = time.monotonic()
        if self._shown and not self._ended.is_set() and now - self._reported_s >= INTERVAL_S:
            self._reported_s = now
            self._send(types.WorkDoneProgressReport(cancellable=True, message=message, percentage=self._percentage))

    def end(self) -> None:
        """Close the display."""
        if self._shown and not self._ended.is_set():
            self._send(types.WorkDoneProgressEnd())
        self._ended.set()

    def _begin(self) -> None:
        if not self._ended.is_set():
            self._shown = True
            message = self._message or None
            self._send(
                types.WorkDoneProgressBegin(self._title, message=message, cancellable=True, percentage=self._percentage)
            )

    def _send(
        self, value: types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd
    ) -> None:
        self._server.progress(types.ProgressParams(token=self.token, value=value))
