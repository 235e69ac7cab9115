"""Queries the file system in threads, so that a hung one cannot block the event loop."""

import asyncio
from collections.abc import Callable, Hashable
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

LIMIT_S = 2.0
"""A file system that takes longer does not answer: it is a lost network drive."""
MAX_UNANSWERED = 64
"""Each takes a thread, which nobody can stop."""
_T = TypeVar("_T")


class FileSystem:
    """Asks each time, without caching. Belongs to one event loop."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Any]] = {}
        self._threads = asyncio.Semaphore(MAX_UNANSWERED)

    async def ask(self, key: Hashable, question: Callable[[], _T]) -> _T | None:
        """The result of `question`, called in a thread and shared by its `key`; None if there is no answer in time."""
        if key not in self._running:
            self._running[key] = asyncio.create_task(self._answer(key, question))
        running = self._running[key]
        await asyncio.wait({running}, timeout=LIMIT_S)
        found: _T | None = running.result() if running.done() else None
        return found

    async def _answer(self, key: Hashable, question: Callable[[], _T]) -> _T:
        """The result of `question`, once there is a thread for it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_T] = loop.create_future()

        def take(found: _T) -> None:
            if not answer.done():  # the server may be ending
                answer.set_result(found)

        def ask() -> None:
            found = question()
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(take, found)

        async with self._threads:
            Thread(target=ask, name="files", daemon=True).start()  # never delays exit
            try:
                return await answer
            finally:
                del self._running[key]
