"""Reaching a worker: the socket at a path, or the loopback port that the file at that path names."""

import asyncio
import json
import stat
from dataclasses import dataclass
from pathlib import Path

import msgspec

from inference.messages import (
    LENGTH_BYTES,
    MAX_MESSAGE_BYTES,
    ClientMessage,
    WorkerMessage,
    decode_worker_message,
    frame,
)


class NotListeningError(Exception):
    """No worker answers there."""


@dataclass(frozen=True)
class Stream:
    """An open connection. `token` is what the worker wants to hear, empty on a Unix socket."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    token: str = ""

    def send(self, message: ClientMessage) -> None:
        """Queue a message. Raises ValueError when it is too long or holds text that is not Unicode."""
        self.writer.write(frame(message))

    async def receive(self) -> WorkerMessage:
        """The next message. Raises EOFError or OSError when the worker is gone, ValueError when it is no worker."""
        length = int.from_bytes(await self.reader.readexactly(LENGTH_BYTES), "big")
        if length > MAX_MESSAGE_BYTES:
            raise msgspec.DecodeError(f"message of {length} bytes")
        return decode_worker_message(await self.reader.readexactly(length))

    def close(self) -> None:
        """Close without waiting."""
        self.writer.close()


async def connect(path: Path) -> Stream:
    """Connect to the worker at `path`. Raises NotListeningError."""
    try:
        if stat.S_ISSOCK(path.stat().st_mode):  # noqa: ASYNC240 - one stat
            return Stream(*await asyncio.open_unix_connection(path))
        return await _connect_tcp(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotListeningError(f"no worker listens at {path}") from error


async def _connect_tcp(path: Path) -> Stream:
    endpoint = json.loads(path.read_bytes())  # noqa: ASYNC240 - under 100 bytes
    reader, writer = await asyncio.open_connection("127.0.0.1", int(endpoint["port"]))
    return Stream(reader, writer, str(endpoint["token"]))
