"""Queries the file system in threads, so that a hung one cannot block the event loop."""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

LIMIT_S = 2.0
"""A file system that takes longer counts as lost, such as a network drive without a connection."""
MAX_UNANSWERED = 64
"""The most calls without an answer: each takes a thread that cannot be stopped."""
_T = TypeVar("_T")


async def run_in_daemon_thread(work: Callable[[], _T]) -> _T:
    """The result of `work`, or its exception, from a thread that never delays the process's end, unlike asyncio's."""
    result: Future[_T] = Future()
    result.set_running_or_notify_cancel()  # or cancelling this would make the thread fail

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    Thread(target=run, name="files", daemon=True).start()
    return await asyncio.wrap_future(result)


class BlockingIo:
    """Runs calls that may block in threads, within `LIMIT_S`, and caches nothing. Belongs to one event loop."""

    def __init__(self) -> None:
        self._running: dict[Hashable, tuple[asyncio.Task[Any], float]] = {}
        """Each call without a result, and until when to wait for it."""
        self._threads = asyncio.Semaphore(MAX_UNANSWERED)

    async def run(self, key: Hashable, question: Callable[[], _T]) -> _T | None:
        """The result of `question`, called in a thread and shared by its `key`; None if there is none in time, and at
        once while an earlier one is still late.
        """
        loop = asyncio.get_running_loop()
        if key not in self._running:
            asking = asyncio.create_task(self._answer(question))
            asking.add_done_callback(lambda _: self._running.pop(key))
            self._running[key] = asking, loop.time() + LIMIT_S
        running, until_s = self._running[key]
        await asyncio.wait({running}, timeout=until_s - loop.time())
        result: _T | None = running.result() if running.done() else None
        return result

    async def _answer(self, question: Callable[[], _T]) -> _T:
        async with self._threads:
            return await run_in_daemon_thread(question)
