"""Starts a worker if none runs. The first client starts it; all others wait for that worker and join it."""

import asyncio
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import BinaryIO

from filelock import FileLock, Timeout
from msgspec.structs import asdict

from inference.messages import ErrorCode, WorkerOptions
from inference.remote.private import why_not_private
from lsp_server.worker.connect import ForeignListenerError, NotListeningError, WorkerStream, attach, rejoin
from lsp_server.worker.failure import SilentError, WorkerFailure
from lsp_server.worker.options import problem_of, resolved
from lsp_server.worker.paths import MAX_SOCKET_PATH_BYTES, WorkerPaths
from lsp_server.worker.processes import is_stopped, pid_of

TRANSPORT_VARIABLE = "INFILL_LS_TRANSPORT"
"""`tcp` or `unix`, for a system where the default does not work."""
START_S = 60.0
"""How long a worker may take to listen: usually a tenth of a second, longer on a busy machine."""
_POLL_S = 0.02
_EXIT_TAKEN = 3
"""The exit status of a worker that found another one running."""


async def attach_or_start(paths: WorkerPaths, options: WorkerOptions, name: str) -> WorkerStream:
    """Joins the worker of `options` at `paths`, starting it if there is none. Raises WorkerFailure."""
    try:
        async with asyncio.timeout(START_S):
            return await _attach_or_start(paths, options, name)
    except TimeoutError:
        if pid := pid_of(paths):
            raise SilentError(paths, pid) from None
        message = f"No worker answered within {START_S:g} s; its log is {paths.log}"
        raise WorkerFailure(ErrorCode.STOPPED, message) from None


async def _attach_or_start(paths: WorkerPaths, options: WorkerOptions, name: str) -> WorkerStream:
    require_folders(paths)
    lock = FileLock(paths.starting, mode=0o600, thread_local=False)
    while True:
        with suppress(NotListeningError):
            return await attach(paths, name)
        try:
            with lock.acquire(blocking=False):
                with suppress(NotListeningError):  # another client may have started it in between
                    return await attach(paths, name)
                try:
                    return await rejoin(paths, name)
                except NotListeningError:
                    pass
                except SilentError as silent:  # one that hangs is replaced
                    if is_stopped(silent.pid):
                        raise
                return await _start(paths, options, name)
        except (Timeout, NotListeningError):
            await asyncio.sleep(_POLL_S)


async def _start(paths: WorkerPaths, options: WorkerOptions, name: str) -> WorkerStream:
    """Starts a worker and joins it, or a running one. Raises WorkerFailure, or NotListeningError if that has ended."""
    process = launch(paths, options)
    while True:
        status = process.poll()
        try:
            return await attach(paths, name)
        except ForeignListenerError as error:
            if status == _EXIT_TAKEN:
                raise WorkerFailure(ErrorCode.STOPPED, str(error)) from error
        except (NotListeningError, SilentError):
            pass  # a new one may be silent while it loads torch from a cold disk
        if is_stopped(process.pid):
            raise SilentError(paths, process.pid)
        if status == _EXIT_TAKEN:
            return await rejoin(paths, name)
        if status is not None:
            raise WorkerFailure(ErrorCode.STOPPED, f"The worker could not start: {_last_words(paths)}")
        await asyncio.sleep(_POLL_S)


def command(paths: WorkerPaths, options: WorkerOptions) -> list[str]:
    """The command line of the worker of `options`, without the token, which the worker reads itself. Raises
    WorkerFailure if its model is invalid.
    """
    if problem := problem_of(options):
        raise WorkerFailure(ErrorCode.MODEL, problem)
    # -P: the current folder may contain its own package named `inference`
    words = [sys.executable, "-P", "-m", "inference.worker", "--socket", str(paths.socket), "--log", str(paths.log)]
    for name, value in asdict(resolved(options)).items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words += [f"--{flag}", str(value)]
    transport = os.environ.get(TRANSPORT_VARIABLE)
    return words + (["--transport", transport] if transport else [])


def launch(paths: WorkerPaths, options: WorkerOptions) -> "subprocess.Popen[bytes]":
    """Starts a worker that outlives this process. Raises WorkerFailure if that is impossible."""
    try:
        with _open_errors(paths) as errors:
            process = subprocess.Popen(
                command(paths, options),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd=paths.folder,  # not the user's project, which may be deleted or unmounted
                start_new_session=True,
                creationflags=_DETACHED,
            )
    except OSError as error:
        raise WorkerFailure(ErrorCode.STOPPED, f"The worker could not be started: {error}") from error
    except ValueError as error:  # a NUL, or half a surrogate pair
        message = "The worker could not be started: model or device has a character in it that no command can be given"
        raise WorkerFailure(ErrorCode.MODEL, message) from error
    threading.Thread(target=process.wait, name="worker-reaper", daemon=True).start()  # leaves no zombie
    return process


_DETACHED: int = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)


def require_folders(paths: WorkerPaths) -> None:
    """Creates private folders for sockets and logs. Raises WorkerFailure if there is none for sockets."""
    if os.name != "nt" and len(os.fsencode(paths.socket)) > MAX_SOCKET_PATH_BYTES:
        message = f"the path of the folder {paths.folder} is too long; set INFILL_LS_RUNTIME_DIR to a shorter one"
        raise WorkerFailure(ErrorCode.INTERNAL, message)
    try:
        paths.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make the folder {paths.folder}: {error.strerror}"
        raise WorkerFailure(ErrorCode.INTERNAL, f"{message}; set INFILL_LS_RUNTIME_DIR to one of your own") from error
    if trouble := why_not_private(paths.folder):
        raise WorkerFailure(ErrorCode.INTERNAL, trouble)
    with suppress(OSError):  # a worker also runs without a log
        paths.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


_REGULAR: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Follows no link, and does not wait for the reader of a pipe."""


def _open_errors(paths: WorkerPaths) -> BinaryIO:
    """An empty file for a new worker's stderr."""
    with suppress(OSError):
        return os.fdopen(os.open(paths.errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _REGULAR, 0o600), "wb")
    return open(os.devnull, "wb")  # noqa: PTH123 - the disk may be full: drop the output


def _last_words(paths: WorkerPaths) -> str:
    """The last line that a process wrote to stderr, which names the problem."""
    with suppress(OSError):
        is_file = paths.errors.is_file()  # and no pipe, which would block
        if is_file and (lines := paths.errors.read_text(errors="replace").strip().splitlines()):
            return lines[-1][:500]
    return f"no error output; see {paths.log}"
