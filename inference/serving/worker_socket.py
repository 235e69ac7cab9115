"""A worker's socket, and the lock beside it, so that a socket never has two workers.

The socket is a Unix socket or, on systems without, a file `{"port": int, "token": str}` for loopback TCP. If either is
deleted, by hand or by a cleaner of temporary folders, no client can find the worker any more, and it ends.
"""

import asyncio
import json
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from inference.remote.file_privacy import folder_permission_problem
from inference.serving.log_and_errors import log

OnConnect = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
TAKE_OVER_S = 15.0
"""How long a new worker waits for one that is ending."""
CHECK_EVERY_S = 1.0
"""How often to check that the socket still exists."""
_TRY_EVERY_S = 0.2
_BACKLOG = 128


class WorkerSocket:
    """The lock and the socket of one path. The lock is released when the process ends, after its memory."""

    def __init__(self, path: Path, transport: str) -> None:
        self._path = path
        self._is_tcp = transport == "tcp"
        self.token = secrets.token_hex(32) if self._is_tcp else ""
        """The secret that clients must know; a Unix socket needs none."""
        self._lock = FileLock(path.with_suffix(".lock"), mode=0o600, thread_local=False)
        self._server: asyncio.Server | None = None
        self._socket: os.stat_result | None = None
        """The `stat` of the file that `listen` made."""

    def acquire(self) -> bool:
        """Takes the lock; returns False if another worker keeps it. Waits for one that is ending. Raises OSError."""
        os.umask(0o077)  # whatever this process writes is for its user alone
        ensure_private_folder(self._path.parent)
        give_up = time.monotonic() + TAKE_OVER_S
        while True:
            try:
                self._lock.acquire(blocking=False)
                return True
            except Timeout:
                if self._path.exists() or time.monotonic() >= give_up:  # a worker that ends removes its socket first
                    return False
            time.sleep(_TRY_EVERY_S)

    async def listen(self, on_connect: OnConnect) -> None:
        """Listens, replacing a killed worker's leftovers. Raises OSError."""
        if self._is_tcp:
            self._server = await asyncio.start_server(on_connect, "127.0.0.1", 0, backlog=_BACKLOG)
            endpoint = {"port": self._server.sockets[0].getsockname()[1], "token": self.token}
            partial = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            partial.write_text(json.dumps(endpoint))
            partial.replace(self._path)
        else:
            self._path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(on_connect, self._path, backlog=_BACKLOG)
        self._socket = self._path.lstat()

    async def call_once_unreachable(self, end: Callable[[], None]) -> None:
        """Calls `end` once the socket is deleted, or another worker has put its own there."""
        while self._is_reachable():  # noqa: ASYNC110 - nothing tells when that ends
            await asyncio.sleep(CHECK_EVERY_S)
        log.warning("%s was deleted, or another worker listens there: this one ends", self._path)
        end()

    def close(self) -> None:
        """Stops accepting clients and removes the socket, unless another worker has put its own there."""
        if self._is_reachable():
            with suppress(OSError):
                self._path.unlink()
        self._socket = None
        if self._server is not None:
            self._server.close()

    def _is_reachable(self) -> bool:
        """Whether a new client would find this worker."""
        try:
            return self._socket is not None and os.path.samestat(self._socket, self._path.lstat())
        except OSError:
            return False


def ensure_private_folder(folder: Path) -> None:
    """Creates `folder` (0700) if it is missing. Raises OSError if others own it or may enter it."""
    if not os.path.lexists(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if problem := folder_permission_problem(folder):
        raise OSError(problem)
