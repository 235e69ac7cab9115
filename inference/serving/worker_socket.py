"""A worker's socket, and the lock beside it, so that a socket never has two workers.

The socket is a Unix socket, or a file `{"port": int, "token": str}` where there are none, for loopback TCP. Either file
may be deleted, by hand or by a cleaner of temporary folders: then the worker restores it. Another worker could lock a
new file of that name meanwhile, so a lock counts only as long as the locked file is the one at the path.
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
"""Each check looks up two or three file names."""
_TRY_EVERY_S = 0.2
_BACKLOG = 128


class WorkerSocket:
    """The lock and the socket of one path. The lock is released when the process ends, after its memory."""

    def __init__(self, path: Path, transport: str) -> None:
        self._path = path
        self._is_tcp = transport == "tcp"
        self.token = secrets.token_hex(32) if self._is_tcp else ""
        """The secret that clients must know; a Unix socket needs none."""
        self._lock_path = path.with_suffix(".lock")
        self._lock: FileLock | None = None
        self._locked_file: os.stat_result | None = None
        self._server: asyncio.Server | None = None
        self._socket: os.stat_result | None = None
        """The file that `listen` has made."""

    def acquire(self) -> bool:
        """Whether the path is now ours. Waits for a worker that is ending. Raises OSError."""
        os.umask(0o077)  # whatever this process writes is for its user alone
        ensure_private_folder(self._path.parent)
        give_up = time.monotonic() + TAKE_OVER_S
        while not self._try_lock():
            if self._path.exists() or time.monotonic() >= give_up:  # a worker that ends removes its socket first
                return False
            time.sleep(_TRY_EVERY_S)
        return True

    async def listen(self, on_connect: OnConnect) -> None:
        """Listens, replacing a killed worker's leftovers; listens again if the file is gone. Raises OSError."""
        deleted = self._server
        if self._is_tcp:
            self._server = deleted or await asyncio.start_server(on_connect, "127.0.0.1", 0, backlog=_BACKLOG)
            endpoint = {"port": self._server.sockets[0].getsockname()[1], "token": self.token}
            partial = self._path.with_name(f"{self._path.name}.{os.getpid()}")
            partial.write_text(json.dumps(endpoint))
            partial.replace(self._path)
        else:
            self._path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(on_connect, self._path, backlog=_BACKLOG)
            if deleted is not None:
                deleted.close()
        self._socket = self._path.lstat()

    async def stay_reachable(self, on_connect: OnConnect, on_replaced: Callable[[], None]) -> None:
        """Restores deleted files, until this is cancelled. Calls `on_replaced` once if another worker has our path."""
        last_problem = ""
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            try:
                if not await self._restore(on_connect):
                    log.warning("%s was deleted, and another worker listens there now: this one ends", self._path)
                    on_replaced()
                    return
                last_problem = ""
            except OSError as error:
                if str(error) != last_problem:
                    last_problem = str(error)
                    log.warning("this worker cannot be reached by new clients: %s", last_problem)

    def close(self) -> None:
        """Stops accepting clients and removes the socket, unless another worker has put its own there, and the links to
        it, which would lead to another model.
        """
        if self._is_reachable():
            with suppress(OSError):
                self._path.unlink()
                for link in self._path.parent.glob("*.sock"):
                    if link.is_symlink() and link.readlink().name == self._path.name:
                        link.unlink()
        self._socket = None
        if self._server is not None:
            self._server.close()

    def release(self) -> None:
        """Makes room for another worker. The clients that are connected stay."""
        self.close()
        self._unlock()

    async def _restore(self, on_connect: OnConnect) -> bool:
        """Restores missing files; returns whether the path is still ours. Raises OSError."""
        if self._is_locked() and self._is_reachable():
            return True
        folder = self._path.parent
        folder.mkdir(mode=0o700, exist_ok=True)  # only the folder: its parents may be on a disk that was unmounted
        ensure_private_folder(folder)
        if not self._try_lock():
            return False
        if not self._is_reachable():
            await self.listen(on_connect)
            log.warning("%s was deleted: listening again", self._path)
        return True

    def _is_reachable(self) -> bool:
        """Whether a new client would find us."""
        return _is_same_file(self._socket, self._path)

    def _is_locked(self) -> bool:
        """Whether the locked file is still the one that another worker would lock."""
        return _is_same_file(self._locked_file, self._lock_path)

    def _try_lock(self) -> bool:
        """Locks the file at the path, made if missing. False if another worker holds it. Raises OSError."""
        while not self._is_locked():
            self._unlock()
            self._lock_path.touch(mode=0o600)
            file = self._lock_path.stat()
            lock = FileLock(self._lock_path, mode=0o600, thread_local=False)
            try:
                lock.acquire(blocking=False)
            except Timeout:
                return False
            self._lock = lock
            self._locked_file = file  # another one of that name, if it was deleted meanwhile
        return True

    def _unlock(self) -> None:
        """Closes a file that was deleted, or that another worker has locked."""
        if self._lock is not None:
            self._lock.release(force=True)
            self._lock = None
            self._locked_file = None


def _is_same_file(file: os.stat_result | None, path: Path) -> bool:
    try:
        return file is not None and os.path.samestat(file, path.lstat())
    except OSError:
        return False


def claim_alias(path: Path, ours: Path) -> bool:
    """Links a socket's path to `ours`, where the platform allows. False if another worker owns that socket."""
    socket = WorkerSocket(path, "unix")
    try:
        if not socket._try_lock():
            return False
        replace_with_link(path, ours)
        socket._unlock()
    except OSError as error:
        log.warning("clients that name the model get a worker of their own: %s", error)
    return True


def replace_with_link(path: Path, to: Path) -> None:
    """Makes `path` a link to a socket beside it. Raises OSError."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    try:
        new.symlink_to(to.name)
    except OSError:  # Windows, unless its user may make links: this leads there until that worker ends
        new.hardlink_to(path.with_name(to.name))
    new.replace(path)


def ensure_private_folder(folder: Path) -> None:
    """Creates `folder` (0700) if it is missing. Raises OSError if others own it or may enter it."""
    if not os.path.lexists(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if problem := folder_permission_problem(folder):
        raise OSError(problem)
