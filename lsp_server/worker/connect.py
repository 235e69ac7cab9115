"""Connects to a running worker: at its Unix socket, or the loopback port that a file names; and shakes hands."""

import asyncio
import json
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from inference import messages
from inference.messages import (
    LENGTH_BYTES,
    MAX_MESSAGE_BYTES,
    ClientMessage,
    ErrorCode,
    Failed,
    Hello,
    Welcome,
    WorkerMessage,
    decode_worker_message,
    frame,
)
from inference.remote.private import why_not_private
from lsp_server.worker.failure import SilentError, WorkerFailure
from lsp_server.worker.paths import WorkerPaths
from lsp_server.worker.processes import is_stopped, pid_of

HANDSHAKE_S = 15.0
"""A worker answers immediately, unless its machine is busy loading a model from a cold disk."""
STATUS_S = 5.0
"""How long a client waits if it only wants the worker's status."""
RETURN_S = 5.0
"""A worker whose socket was deleted recreates it within a second, or a few on a busy machine."""
_POLL_S = 0.2


class NotListeningError(Exception):
    """No worker listens there."""


class ForeignListenerError(NotListeningError):
    """Something listens there and answers, but not as a worker of this release. str() says what to do."""


@dataclass(eq=False)
class WorkerStream:
    """An open connection to a worker. `token` is the secret that the worker expects; empty on a Unix socket. The
    worker's process and release are known after the handshake.
    """

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    token: str = ""
    pid: int = 0
    release: str = ""

    def send(self, message: ClientMessage) -> None:
        """Queues a message. Raises ValueError if it is too long or holds text that is not Unicode."""
        self.writer.write(frame(message))

    async def receive(self) -> WorkerMessage:
        """The next message. Raises EOFError or OSError if the worker is gone, ValueError if it is no worker."""
        length = int.from_bytes(await self.reader.readexactly(LENGTH_BYTES), "big")
        if length > MAX_MESSAGE_BYTES:
            raise msgspec.DecodeError(f"message of {length} bytes")
        return decode_worker_message(await self.reader.readexactly(length))

    def close(self) -> None:
        """Closes without waiting."""
        self.writer.close()


async def connect(path: Path) -> WorkerStream:
    """Connects to the worker at `path`. Raises NotListeningError."""
    try:
        if stat.S_ISSOCK(path.stat().st_mode):  # noqa: ASYNC240 - one stat
            return WorkerStream(*await asyncio.open_unix_connection(path))
        return await _connect_tcp(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotListeningError(f"no worker listens at {path}") from error


async def _connect_tcp(path: Path) -> WorkerStream:
    endpoint = json.loads(path.read_bytes())  # noqa: ASYNC240 - under 100 bytes
    reader, writer = await asyncio.open_connection("127.0.0.1", int(endpoint["port"]))
    return WorkerStream(reader, writer, str(endpoint["token"]))


async def attach(paths: WorkerPaths, name: str, limit_s: float = HANDSHAKE_S) -> WorkerStream:
    """Joins the worker at `paths` as `name`. Raises NotListeningError if there is none, ForeignListenerError if there
    is something else, SilentError if it does not answer within `limit_s`, and another WorkerFailure if it refuses or
    the folder is unsafe.
    """
    if trouble := why_not_private(paths.folder):
        raise WorkerFailure(ErrorCode.INTERNAL, trouble)
    stream = await connect(paths.socket)
    try:
        async with asyncio.timeout(limit_s):
            await _greet(stream, name)
    except BaseException as error:
        stream.close()
        if isinstance(error, TimeoutError):  # also an OSError, so it comes first
            raise SilentError(paths) from None
        if isinstance(error, ValueError):
            said = f"what listens at {paths.socket} does not answer as a worker of this release"
            raise ForeignListenerError(f"{said}; end it, or remove that file, and try again") from error
        if isinstance(error, OSError | EOFError):
            raise NotListeningError(f"what listens at {paths.socket} has ended") from error
        raise
    return stream


async def join(paths: WorkerPaths, name: str, limit_s: float) -> WorkerStream:
    """Joins the worker of `paths`, even if it must first recreate its socket. Raises as `rejoin`."""
    with suppress(NotListeningError):
        return await attach(paths, name, limit_s)
    return await rejoin(paths, name, limit_s)


async def rejoin(paths: WorkerPaths, name: str, limit_s: float = HANDSHAKE_S) -> WorkerStream:
    """Joins a running worker once it listens again, since its socket was deleted. Raises as `attach`: NotListeningError
    if there is no such process, SilentError if it does not come back within `RETURN_S`.
    """
    give_up = asyncio.get_running_loop().time() + RETURN_S
    while (pid := await asyncio.to_thread(pid_of, paths)) is not None:
        if is_stopped(pid) or asyncio.get_running_loop().time() >= give_up:
            raise SilentError(paths, pid)
        await asyncio.sleep(_POLL_S)
        with suppress(NotListeningError):
            return await attach(paths, name, limit_s)
    raise NotListeningError(f"no worker listens at {paths.socket}")


async def _greet(stream: WorkerStream, name: str) -> None:
    stream.send(Hello(client=name, token=stream.token))
    match await stream.receive():
        case Welcome(protocol=messages.PROTOCOL_VERSION, pid=pid, version=version):
            stream.pid = pid
            stream.release = version
        case Failed(code=code, message=message):
            raise WorkerFailure(code, message)
        case _:
            raise ValueError("a worker says welcome first, and which protocol it speaks")
