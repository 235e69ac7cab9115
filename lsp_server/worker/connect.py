"""Connects to a worker, at its Unix socket or the loopback port that a file names, and shakes hands.

Starts one if none runs: the first client starts it, and all others wait for that worker and join it.
"""

import asyncio
import json
import os
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

import msgspec
from filelock import FileLock, Timeout
from msgspec.structs import asdict, replace

from inference import messages
from inference.messages import (
    LENGTH_BYTES,
    MAX_MESSAGE_BYTES,
    ClientMessage,
    ErrorCode,
    Failed,
    Hello,
    Status,
    Welcome,
    WorkerMessage,
    WorkerOptions,
    WorkerState,
    decode_worker_message,
    encode_frame,
)
from inference.remote.file_privacy import folder_permission_problem
from lsp_server.settings.worker_options import canonical_model, options_problem
from lsp_server.worker.failure import WorkerError, WorkerUnresponsiveError
from lsp_server.worker.paths import FOLDER_VARIABLE, MAX_SOCKET_PATH_BYTES, WorkerPaths, find_worker_pid, is_suspended

HANDSHAKE_S = 15.0
"""A worker answers immediately, unless its machine is busy loading a model from a cold disk."""
STATUS_S = 5.0
"""How long a client waits if it only wants the worker's status."""
LISTEN_WAIT_S = 15.0
"""How long to wait for a worker that is starting to listen, or for one that is ending to go."""
_POLL_S = 0.2


class NotListeningError(Exception):
    """No worker listens there."""


class ForeignListenerError(NotListeningError):
    """Something listens there and answers, but not as a worker of this release. str() says what to do."""


_INITIAL_STATUS = Status(WorkerState.LOADING)


@dataclass(eq=False)
class WorkerLink:
    """An open connection to a worker. `token` is the secret that the worker expects; empty on a Unix socket. The
    worker's process, release and status are known after the handshake. Once it has a `failure`, it is closed.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    token: str = ""
    pid: int = 0
    worker_version: str = ""
    status: Status = _INITIAL_STATUS
    failure: WorkerError | None = None
    reading: asyncio.Task[None] | None = None

    def send(self, message: ClientMessage) -> None:
        """Queues a message. Raises WorkerError: the connection's, or why the message cannot be sent."""
        if self.failure:
            raise self.failure
        try:
            self.writer.write(encode_frame(message))
        except ValueError as error:  # too long, or a str that is not valid Unicode
            raise WorkerError(ErrorCode.BAD_REQUEST, f"The request cannot be sent: {error}") from error

    async def receive(self) -> WorkerMessage:
        """The next message. Raises EOFError or OSError if the worker is gone, ValueError if it is no worker."""
        length = int.from_bytes(await self.reader.readexactly(LENGTH_BYTES), "big")
        if length > MAX_MESSAGE_BYTES:
            raise msgspec.DecodeError(f"message of {length} bytes")
        return decode_worker_message(await self.reader.readexactly(length))

    def close(self) -> None:
        self.writer.close()

    async def wait_closed(self) -> None:
        """Waits until its reader has taken the last message."""
        if self.reading is not None:
            await asyncio.wait({self.reading})


async def attach_to_running(paths: WorkerPaths, name: str, limit_s: float = HANDSHAKE_S) -> WorkerLink:
    """Joins the worker at `paths` as `name`. Raises NotListeningError if there is none, ForeignListenerError if there
    is something else, WorkerUnresponsiveError if it does not answer within `limit_s`, and another WorkerError if it
    refuses or the folder is unsafe.
    """
    if problem := folder_permission_problem(paths.folder):
        raise WorkerError(ErrorCode.INTERNAL, problem)
    try:
        if stat.S_ISSOCK(paths.socket.stat().st_mode):
            connection = WorkerLink(*await asyncio.open_unix_connection(paths.socket))
        else:
            data = json.loads(paths.socket.read_bytes())
            connection = WorkerLink(*await asyncio.open_connection("127.0.0.1", int(data["port"])), str(data["token"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotListeningError(f"no worker listens at {paths.socket}") from error
    try:
        async with asyncio.timeout(limit_s):
            connection.send(Hello(client=name, token=connection.token))
            match await connection.receive():
                case Welcome(protocol=messages.PROTOCOL_VERSION, pid=pid, version=version):
                    connection.pid = pid
                    connection.worker_version = version
                case Failed(code=code, message=message):
                    raise WorkerError(code, message)
                case _:
                    raise ValueError("a worker says welcome first, and which protocol it speaks")
            if not isinstance(status := await connection.receive(), Status):
                raise ValueError("a worker tells its status next")
            connection.status = status
    except BaseException as error:
        connection.close()
        if isinstance(error, TimeoutError):  # also an OSError, so it comes first
            raise WorkerUnresponsiveError(paths) from None
        if isinstance(error, ValueError):
            problem = f"what listens at {paths.socket} does not answer as a worker of this release"
            raise ForeignListenerError(f"{problem}; end it, or remove that file, and try again") from error
        if isinstance(error, OSError | EOFError):
            raise NotListeningError(f"what listens at {paths.socket} has ended") from error
        raise
    return connection


async def attach_with_retries(paths: WorkerPaths, name: str, limit_s: float = HANDSHAKE_S) -> WorkerLink:
    """Joins the running worker of `paths`, also one that has yet to listen. Raises as `attach_to_running`:
    NotListeningError if there is no such process, WorkerUnresponsiveError after `LISTEN_WAIT_S`.
    """
    deadline_s = asyncio.get_running_loop().time() + LISTEN_WAIT_S
    while True:
        try:
            return await attach_to_running(paths, name, limit_s)
        except NotListeningError:
            pid = await asyncio.to_thread(find_worker_pid, paths)
            if pid is None:
                raise
        if is_suspended(pid) or asyncio.get_running_loop().time() >= deadline_s:
            raise WorkerUnresponsiveError(paths, pid)
        await asyncio.sleep(_POLL_S)


TRANSPORT_VARIABLE = "INFILL_LS_TRANSPORT"
"""`tcp` or `unix`, for a system where the default does not work."""
START_S = 60.0
"""How long a worker may take to listen: usually a tenth of a second, longer on a busy machine."""
_START_POLL_S = 0.02
_EXIT_SOCKET_TAKEN = 3
"""The exit status of a worker that found another one running."""


async def attach_or_start(paths: WorkerPaths, options: WorkerOptions, name: str) -> WorkerLink:
    """Joins the worker of `options`, starting one if there is none. Raises WorkerError."""
    ensure_private_folders(paths)
    lock = FileLock(paths.start_lock, mode=0o600, thread_local=False)
    try:
        async with asyncio.timeout(START_S):
            while True:
                with suppress(NotListeningError):
                    return await attach_to_running(paths, name)
                with suppress(Timeout, NotListeningError), lock.acquire(blocking=False):
                    try:  # again: another client may have started it in between
                        return await attach_with_retries(paths, name)
                    except NotListeningError:
                        pass
                    except WorkerUnresponsiveError as failure:  # one that hangs is replaced
                        if is_suspended(failure.pid):
                            raise
                    return await _start(paths, options, name)
                await asyncio.sleep(_START_POLL_S)
    except TimeoutError:
        if pid := find_worker_pid(paths):
            raise WorkerUnresponsiveError(paths, pid) from None
        message = f"No worker answered within {START_S:g} s; its log is {paths.log}"
        raise WorkerError(ErrorCode.STOPPED, message) from None
    except OSError as error:  # such as a folder that cannot be written, or something else in place of a file
        remedy = f"remove it if it is no file of yours, or set {FOLDER_VARIABLE} to a folder that you can write"
        message = f"cannot use {error.filename or paths.folder}: {error.strerror or error}; {remedy}"
        raise WorkerError(ErrorCode.INTERNAL, message) from error


async def _start(paths: WorkerPaths, options: WorkerOptions, name: str) -> WorkerLink:
    """Starts a worker and joins it, or a running one. Raises WorkerError, or NotListeningError if that has ended."""
    process = launch_worker(paths, options)
    while True:
        status = process.poll()
        try:
            return await attach_to_running(paths, name)
        except ForeignListenerError as error:
            if status == _EXIT_SOCKET_TAKEN:
                raise WorkerError(ErrorCode.STOPPED, str(error)) from error
        except (NotListeningError, WorkerUnresponsiveError):
            pass  # a new one may be silent while it loads torch from a cold disk
        if is_suspended(process.pid):
            raise WorkerUnresponsiveError(paths, process.pid)
        if status == _EXIT_SOCKET_TAKEN:
            return await attach_with_retries(paths, name)
        if status is not None:
            raise WorkerError(ErrorCode.STOPPED, f"The worker could not start: {_last_error_line(paths)}")
        await asyncio.sleep(_START_POLL_S)


def worker_command(paths: WorkerPaths, options: WorkerOptions) -> list[str]:
    """The command line of the worker of `options`, without the token, which the worker reads itself. Raises
    WorkerError if its model is invalid.
    """
    if problem := options_problem(options):
        raise WorkerError(ErrorCode.MODEL, problem)
    # -P: the current folder may contain its own package named `inference`
    arguments = [sys.executable, "-P", "-m", "inference.worker", "--socket", str(paths.socket), "--log", str(paths.log)]
    resolved = replace(options, model=canonical_model(options.model))  # another program may have got it meanwhile
    for name, value in asdict(resolved).items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            arguments.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            arguments += [f"--{flag}", str(value)]
    transport = os.environ.get(TRANSPORT_VARIABLE)
    return arguments + (["--transport", transport] if transport else [])


def launch_worker(paths: WorkerPaths, options: WorkerOptions) -> "subprocess.Popen[bytes]":
    """Starts a worker that outlives this process. Raises WorkerError if that is impossible."""
    try:
        with _open_errors(paths) as errors:
            process = subprocess.Popen(
                worker_command(paths, options),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd=paths.folder,  # not the user's project, which may be deleted or unmounted
                start_new_session=True,
                creationflags=_DETACHED,
            )
    except (OSError, ValueError) as error:  # such as a NUL, or half a surrogate pair
        raise WorkerError(ErrorCode.STOPPED, f"The worker could not be started: {error}") from error
    threading.Thread(target=process.wait, name="worker-reaper", daemon=True).start()  # leaves no zombie
    return process


_DETACHED: int = getattr(subprocess, "DETACHED_PROCESS", 0) | getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)


def ensure_private_folders(paths: WorkerPaths) -> None:
    """Creates private folders for sockets and logs. Raises WorkerError if there is none for sockets."""
    if os.name != "nt" and len(os.fsencode(paths.socket)) > MAX_SOCKET_PATH_BYTES:
        message = f"the path of the folder {paths.folder} is too long; set INFILL_LS_RUNTIME_DIR to a shorter one"
        raise WorkerError(ErrorCode.INTERNAL, message)
    try:
        paths.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make the folder {paths.folder}: {error.strerror}"
        raise WorkerError(ErrorCode.INTERNAL, f"{message}; set INFILL_LS_RUNTIME_DIR to one of your own") from error
    if problem := folder_permission_problem(paths.folder):
        raise WorkerError(ErrorCode.INTERNAL, problem)
    with suppress(OSError):  # a worker also runs without a log
        paths.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


_SAFE_FLAGS: int = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Follows no link, and does not wait for the reader of a pipe."""


def _open_errors(paths: WorkerPaths) -> BinaryIO:
    with suppress(OSError):
        return os.fdopen(os.open(paths.stderr_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _SAFE_FLAGS, 0o600), "wb")
    return open(os.devnull, "wb")  # noqa: PTH123 - the disk may be full: drop the output


def _last_error_line(paths: WorkerPaths) -> str:
    with suppress(OSError):
        is_file = paths.stderr_file.is_file()  # and no pipe, which would block
        if is_file and (lines := paths.stderr_file.read_text(errors="replace").strip().splitlines()):
            return lines[-1][:500]
    return f"no error output; see {paths.log}"
