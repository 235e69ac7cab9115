"""Listens for clients on a Unix socket, or on loopback TCP with a token if there are no Unix sockets.

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
    """An open socket at `path`. The caller holds the claim to it, so nobody else listens there."""

    def __init__(self, path: Path, transport: str, on_connect: OnConnect) -> None:
        self._path, self._transport, self._on_connect = path, transport, on_connect
        self._server: asyncio.Server | None = None
        self._made: os.stat_result | None = None
        self._endpoint = b""
        self.token = secrets.token_hex(32) if transport == "tcp" else ""

    async def open(self) -> None:
        """Listens, replacing a killed worker's leftovers; listens again if the file is gone. Raises OSError."""
        if self._transport == "tcp":
            await self._open_tcp()
        else:
            await self._open_unix()
        self._made = self._path.lstat()

    @property
    def stands(self) -> bool:
        """Whether a new client would find us."""
        try:
            if self._made is None or not os.path.samestat(self._made, self._path.lstat()):
                return False
            return self._transport != "tcp" or self._path.read_bytes() == self._endpoint
        except OSError:
            return False

    def close(self) -> None:
        """Stops accepting clients and removes the socket, unless another worker has put its own there."""
        if self.stands:
            with suppress(OSError):
                self._path.unlink()
        if self._server is not None:
            self._server.close()

    async def _open_unix(self) -> None:
        deleted, path = self._server, self._path
        path.unlink(missing_ok=True)
        opened = await asyncio.start_unix_server(self._on_connect, path, backlog=BACKLOG)
        try:
            path.chmod(0o600)
        except OSError:
            opened.close()
            raise
        self._server = opened
        if deleted is not None:
            deleted.close()

    async def _open_tcp(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._on_connect, "127.0.0.1", 0, backlog=BACKLOG)
        port = self._server.sockets[0].getsockname()[1]
        self._endpoint = json.dumps({"port": port, "token": self.token}).encode()
        _write_private_file(self._path, self._endpoint)


def read_port(path: Path) -> int:
    """The port in the file of the TCP worker of `path`. Raises OSError or ValueError."""
    try:
        return int(json.loads(path.read_bytes())["port"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} does not say where the worker listens") from error


def _write_private_file(path: Path, content: bytes) -> None:
    """Writes `content` to `path` atomically, readable by this user alone. Raises OSError."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    partial.replace(path)
