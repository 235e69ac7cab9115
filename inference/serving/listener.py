"""Listens for clients on a Unix socket, or on loopback TCP with a token where there are no Unix sockets.

With TCP the file at the socket's path holds `{"port": int, "token": str}` and is readable by this user alone.
"""

import asyncio
import json
import os
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

OnConnect = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
BACKLOG = 128


class Listener:
    """An open socket at `path`. The caller holds the lock, so nobody else listens there."""

    def __init__(self, server: asyncio.Server, path: Path, token: str) -> None:
        self._server = server
        self._path = path
        self.token = token

    def close(self) -> None:
        """Take no more clients and remove the socket."""
        with suppress(OSError):
            self._path.unlink()
        self._server.close()


async def listen(path: Path, transport: str, on_connect: OnConnect) -> Listener:
    """Listen at `path`, replacing what a killed worker left there. Raises OSError."""
    path.unlink(missing_ok=True)  # noqa: ASYNC240 - nobody is served yet
    if transport == "tcp":
        return await _listen_tcp(path, on_connect)
    server = await asyncio.start_unix_server(on_connect, path, backlog=BACKLOG)
    path.chmod(0o600)  # noqa: ASYNC240
    return Listener(server, path, token="")


async def _listen_tcp(path: Path, on_connect: OnConnect) -> Listener:
    token = secrets.token_hex(32)
    server = await asyncio.start_server(on_connect, "127.0.0.1", 0, backlog=BACKLOG)
    port = server.sockets[0].getsockname()[1]
    _write_private_file(path, json.dumps({"port": port, "token": token}).encode())
    return Listener(server, path, token)


def read_port(path: Path) -> int:
    """The port that the TCP worker of `path` listened on when it wrote the file. Raises OSError or ValueError."""
    try:
        return int(json.loads(path.read_bytes())["port"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} does not say where the worker listens") from error


def _write_private_file(path: Path, content: bytes) -> None:
    """Put `content` at `path` in one step, readable by this user alone. Raises OSError."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    partial.replace(path)
