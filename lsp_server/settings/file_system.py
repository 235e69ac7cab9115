"""Queries the file system in threads, so that a hung one cannot block the event loop."""

import asyncio
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import Any, TypeVar

LIMIT_S = 2.0
"""A file system that takes longer does not answer: it is a lost network drive."""
MAX_UNANSWERED = 64
"""Each takes a thread, which nobody can stop."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class _Running:
    answer: "asyncio.Future[Any]"
    until_s: float


class FileSystem:
    """Asks each time, without caching. Belongs to one event loop."""

    def __init__(self) -> None:
        self._running: dict[Hashable, _Running] = {}
        self._threads = asyncio.Semaphore(MAX_UNANSWERED)

    async def ask(self, key: Hashable, question: Callable[[], _T]) -> _T | None:
        """The result of `question`, called in a thread and shared by its `key`; None if there is no answer in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LIMIT_S):
                running = self._running.get(key) or await self._start(key, question)
            await asyncio.wait({running.answer}, timeout=max(0.0, running.until_s - _now_s()))
            found: _T | None = running.answer.result() if running.answer.done() else None
            return found
        return None

    async def _start(self, key: Hashable, question: Callable[[], object]) -> _Running:
        """Asks, once there is a thread for it."""
        await self._threads.acquire()
        if key in self._running:  # another task has asked meanwhile
            self._threads.release()
            return self._running[key]
        loop = asyncio.get_running_loop()
        self._running[key] = running = _Running(loop.create_future(), _now_s() + LIMIT_S)
        Thread(target=self._ask, args=(key, question, loop), name="files", daemon=True).start()  # never delays exit
        return running

    def _ask(self, key: Hashable, question: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        answer = question()
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(self._finish, key, answer)

    def _finish(self, key: Hashable, answer: object) -> None:
        self._running.pop(key).answer.set_result(answer)
        self._threads.release()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
