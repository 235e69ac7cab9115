"""A worker's claim to its socket: a lock file beside it, so that a socket never has two workers.

The file may be deleted while locked, by hand or by a cleaner of temporary folders. Then another worker could lock a new
file of that name. So a claim counts only as long as the locked file is the one at the path.
"""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock, Timeout

from inference.serving import listener
from inference.serving.listener import Listener
from inference.serving.logs import log
from inference.serving.startup import NotPrivateError, WorkerArguments, require_private_folder

TAKE_OVER_S = 15.0
"""How long a new worker waits for one that is ending."""
_TRY_EVERY_S = 0.2


class Claim:
    """The lock of one socket. It is released when the process ends, after its memory."""

    def __init__(self, path: Path) -> None:
        """`path`: the socket."""
        self._path = path
        self._file = path.with_suffix(".lock")
        self._lock: FileLock | None = None
        self._descriptor = -1

    def take(self) -> bool:
        """Whether the socket is now ours. Waits for a worker that is ending. Raises OSError."""
        give_up = time.monotonic() + TAKE_OVER_S
        while time.monotonic() < give_up:
            if self.renew():
                return True
            if _has_listener(self._path):
                return False
            time.sleep(_TRY_EVERY_S)
        return False

    @property
    def stands(self) -> bool:
        """Whether the locked file is still the one that another worker would lock."""
        try:
            return self._lock is not None and os.path.samestat(os.fstat(self._descriptor), self._file.stat())
        except OSError:
            return False

    def renew(self) -> bool:
        """Locks the file at the path, made if missing. False if another worker holds it. Raises OSError."""
        while not self.stands:
            self._let_go()
            self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            self._lock = FileLock(self._file, mode=0o600, thread_local=False)
            try:
                self._lock.acquire(blocking=False)
            except Timeout:
                self._let_go()
                return False
        return True

    def _let_go(self) -> None:
        """Closes a file that was deleted, or that another worker has locked."""
        if self._lock is not None:
            self._lock.release(force=True)
            os.close(self._descriptor)
            self._lock = None


def _has_listener(path: Path) -> bool:
    try:
        if path.is_socket():
            with socket.socket(socket.AF_UNIX) as attempt:
                attempt.settimeout(1.0)
                attempt.connect(str(path))
        else:
            with contextlib.closing(socket.create_connection(("127.0.0.1", listener.read_port(path)), timeout=1.0)):
                pass
    except (OSError, ValueError):
        return False
    return True


CHECK_EVERY_S = 1.0
"""Each check looks up two or three file names."""


async def stay_reachable(
    arguments: WorkerArguments, claim: Claim, opened: Listener, give_way: Callable[[], None]
) -> None:
    """Restores deleted files, until this is cancelled. Calls `give_way` once if another worker has our place."""
    told = ""
    while True:
        await asyncio.sleep(CHECK_EVERY_S)
        try:
            if not await _restored(arguments, claim, opened):
                log.warning("%s was deleted, and another worker listens there now: this one ends", arguments.socket)
                give_way()
                return
            told = ""
        except (OSError, NotPrivateError) as error:
            if str(error) != told:
                told = str(error)
                log.warning("this worker cannot be reached by new clients: %s", told)


async def _restored(arguments: WorkerArguments, claim: Claim, opened: Listener) -> bool:
    """Whether the socket is ours, after restoring missing files. Raises OSError or NotPrivateError."""
    if claim.stands and opened.stands:
        return True
    folder = arguments.socket.parent
    folder.mkdir(mode=0o700, exist_ok=True)  # only the folder: its parents may be on a disk that was unmounted
    require_private_folder(folder)
    if not claim.renew():
        return False
    if not opened.stands:
        await opened.open()
        log.warning("%s was deleted: listening again", arguments.socket)
    return True
