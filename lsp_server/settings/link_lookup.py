"""Look up where the links on a document's path lead, in threads, so that no file system can stop the event loop."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from lsp_server.documents.links import names_of

LIMIT_S = 2.0
"""A file system that takes longer does not answer: it is a network drive that is gone."""
MAX_UNANSWERED = 64
"""Each takes a thread, which nobody can stop."""
Names = tuple[str, ...]


@dataclass(frozen=True)
class _Running:
    names: "asyncio.Future[Names]"
    until_s: float


class LinkLookup:
    """Follows each path anew when asked. Belongs to one event loop."""

    def __init__(self) -> None:
        self._running: dict[Path, _Running] = {}
        self._threads = asyncio.Semaphore(MAX_UNANSWERED)

    async def names(self, path: Path) -> Names | None:
        """What `documents.links.names_of` finds, with slashes; None where the file system does not answer in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LIMIT_S):
                running = self._running.get(path) or await self._start(path)
            await asyncio.wait({running.names}, timeout=max(0.0, running.until_s - _now_s()))
            return running.names.result() if running.names.done() else None
        return None

    async def _start(self, path: Path) -> _Running:
        """Follow a path, once there is a thread for it."""
        await self._threads.acquire()
        if path in self._running:  # somebody else has asked meanwhile
            self._threads.release()
            return self._running[path]
        loop = asyncio.get_running_loop()
        self._running[path] = running = _Running(loop.create_future(), _now_s() + LIMIT_S)
        Thread(target=self._follow, args=(path, loop), name="links", daemon=True).start()  # no exit waits for it
        return running

    def _follow(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        names = tuple(name.as_posix() for name in names_of(path))
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(self._finish, path, names)

    def _finish(self, path: Path, names: Names) -> None:
        self._running.pop(path).names.set_result(names)
        self._threads.release()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
