"""Shared by the HTTP test servers: connections, requests, and clients that leave before the answer."""

import asyncio
import json
import ssl
from abc import abstractmethod
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

_T = TypeVar("_T")
_Server = TypeVar("_Server", bound="HttpServer")


@dataclass(frozen=True)
class HttpRequest:
    """One request. The names of its headers are in lower case."""

    line: str
    headers: dict[str, str]
    content: bytes

    @property
    def path(self) -> str:
        return self.line.split()[1]

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.content or b"{}")


@dataclass(kw_only=True)
class HttpServer:
    """`running` requests are being answered just now; of `aborted` ones the client has gone first.

    `requests` are all so far. With a `token`, one without it is refused. `hold` is cleared by a test that wants answers
    held back; where it `holds` them from the start, until that is set.
    """

    url: str = ""
    token: str = ""
    requests: list[HttpRequest] = field(default_factory=list)
    holds: bool = False
    hold: asyncio.Event = field(default_factory=asyncio.Event)
    running: int = 0
    aborted: int = 0
    _connections: set[asyncio.StreamWriter] = field(default_factory=set)

    @abstractmethod
    async def reply(self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a request. Raises EOFError to end the connection."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, which may send several requests."""
        self._connections.add(writer)
        with suppress(OSError, EOFError, asyncio.CancelledError):  # the last of them where a test's loop ends
            while request := await _read(reader, writer):
                self.requests.append(request)
                if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
                    writer.write(response(401, {"error": "Unauthorized"}))
                else:
                    await self.reply(request, reader, writer)
                await writer.drain()
        self._connections.discard(writer)
        writer.close()

    async def close(self) -> None:
        for connection in tuple(self._connections):
            connection.close()

    async def unless_gone(self, reader: asyncio.StreamReader, answering: Coroutine[Any, Any, _T]) -> _T:
        """What `answering` gives. Raises EOFError where the client goes first."""
        gone = asyncio.create_task(reader.read(1))  # a client that waits for its answer sends nothing
        task = asyncio.create_task(answering)
        self.running += 1
        try:
            await asyncio.wait({gone, task}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() or isinstance(task.exception(), OSError):
                self.aborted += 1
                raise EOFError
            return task.result()
        finally:
            self.running -= 1
            for each in (gone, task):
                each.cancel()
                with suppress(asyncio.CancelledError, OSError):
                    await each


def response(status: int, value: object, headers: dict[str, str] | None = None) -> bytes:
    data = json.dumps(value).encode()
    named = {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {text}" for name, text in named.items()), "", ""]
    return "\r\n".join(lines).encode() + data


def chunk(data: bytes) -> bytes:
    """A part of an answer whose length is not known yet."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@asynccontextmanager
async def listening(
    server: _Server, port: int = 0, certified: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[_Server]:
    """The server while it runs; over TLS where it has a certificate."""
    if not server.holds:
        server.hold.set()
    opened = await asyncio.start_server(server.serve, "127.0.0.1", port, ssl=certified)
    server.url = f"{'https' if certified else 'http'}://{host}:{opened.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        opened.close()
        await server.close()
        await opened.wait_closed()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest | None:
    """None where what comes is no HTTP, such as the start of TLS."""
    first = await reader.readexactly(1)
    if not first.isalpha():
        writer.write(response(400, {"error": "Invalid HTTP request received."}))
        return None
    lines = (first + await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    pairs = (line.partition(":") for line in lines[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    return HttpRequest(lines[0], headers, await reader.readexactly(int(headers.get("content-length", "0"))))
