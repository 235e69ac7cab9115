"""A real HTTP test server that misbehaves on purpose, in front of one that answers like vLLM.

Not part of the product. A test sets its `fault` while it runs; without one it passes requests on to a `CanvasServer`
and answers back. Words and statuses are vLLM 0.32's, where vLLM has some.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum

from tests.canvas_server import CanvasServer


class Fault(StrEnum):
    """What goes wrong with every request for a canvas."""

    NONE = "none"
    REFUSED = "refused"
    """Nobody listens at the port."""
    SILENT = "silent"
    """It takes the request and never answers."""
    SLOW = "slow"
    """It answers a byte at a time, without end."""
    TOO_MANY = "429 with Retry-After"
    STARTING = "503"
    CUT_OFF = "cut off in mid-answer"
    OTHER_MODEL = "another model behind the URL"
    NO_PINS = "a vLLM that is too old for pins"
    NARROW = "a canvas that is too wide"
    GARBAGE = "no JSON"
    ENDLESS = "an endless body"
    ELSEWHERE = "a redirect"
    CRASHED = "500 in HTML"


_NOT_FOUND = "The model `infill` does not exist."
_TOO_WIDE = "diffusion_canvas_length must be a positive integer no larger than the served canvas."
_OLD = {"choices": [{"token_ids": [5], "text": "x", "finish_reason": "length", "logprobs": {"top_logprobs": [{}]}}]}


def _error(message: str, code: int, kind: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()


_ANSWERS = {
    Fault.TOO_MANY: ("429 Too Many Requests", _error("Too many requests", 429, "RateLimitError")),
    Fault.STARTING: ("503 Service Unavailable", b"no healthy upstream"),
    Fault.OTHER_MODEL: ("404 Not Found", _error(_NOT_FOUND, 404, "NotFoundError")),
    Fault.NO_PINS: ("200 OK", json.dumps(_OLD).encode()),
    Fault.NARROW: ("400 Bad Request", _error(_TOO_WIDE, 400, "BadRequestError")),
    Fault.GARBAGE: ("200 OK", b"}{ \xff no JSON"),
    Fault.CRASHED: ("500 Internal Server Error", b"<html><body><h1>Internal Server Error</h1></body></html>"),
}


@dataclass
class FaultyServer:
    """`asked` has the monotonic time of each request for a canvas, by which a test counts them.

    `elsewhere` is where a redirect leads, `retry_after_s` what a 429 asks for.
    """

    behind: CanvasServer
    fault: Fault = Fault.NONE
    retry_after_s: int = 2
    elsewhere: str = "http://127.0.0.1:9/v1/completions"
    asked: list[float] = field(default_factory=list)
    port: int = 0
    _listening: asyncio.Server | None = None
    _connections: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def begin(self, fault: Fault) -> None:
        """Do this wrong from now on; nothing before counts."""
        await self._close()
        self.asked.clear()
        self.fault = fault
        if fault is not Fault.REFUSED:
            await self._listen()

    async def _listen(self) -> None:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._listening.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._listening is not None:
            self._listening.close()
            for connection in tuple(self._connections):
                connection.transport.abort()
            await self._listening.wait_closed()
            self._listening = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        upstream = None
        try:
            upstream = await asyncio.open_connection("127.0.0.1", int(self.behind.url.rpartition(":")[2]))
            while True:
                request = await _message(reader)
                if b"/v1/completions" not in request.split(b"\r\n", 1)[0]:
                    await _relay(request, upstream, writer)
                    continue
                self.asked.append(time.monotonic())
                if self.fault is Fault.NONE:
                    await _relay(request, upstream, writer)
                else:
                    await self._misbehave(writer)
        except (OSError, EOFError):
            pass
        finally:
            self._connections.discard(writer)
            for each in (writer, upstream[1] if upstream else writer):
                each.close()

    async def _misbehave(self, writer: asyncio.StreamWriter) -> None:
        match self.fault:
            case Fault.SILENT:
                await asyncio.sleep(3600)
            case Fault.SLOW:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                await _drip(writer, b" ", 0.05)
            case Fault.ENDLESS:
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                await _drip(writer, b"10000\r\n" + b" " * 0x10000 + b"\r\n", 0)
            case Fault.CUT_OFF:
                writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{"choices": [')
                await writer.drain()
                writer.transport.abort()
                raise EOFError
            case Fault.ELSEWHERE:
                _answer(writer, "307 Temporary Redirect", b"", f"Location: {self.elsewhere}")
            case Fault.TOO_MANY:
                _answer(writer, *_ANSWERS[self.fault], f"Retry-After: {self.retry_after_s}")
            case _:
                _answer(writer, *_ANSWERS[self.fault])


def _answer(writer: asyncio.StreamWriter, status: str, body: bytes, *headers: str) -> None:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    writer.write("\r\n".join(lines).encode() + body)


async def _drip(writer: asyncio.StreamWriter, part: bytes, pause_s: float) -> None:
    while True:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(pause_s)


async def _message(reader: asyncio.StreamReader) -> bytes:
    """One request or answer whose length stands in its head."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().splitlines() if line.startswith(b"content-length:")]
    return head + await reader.readexactly(int(lengths[0].partition(b":")[2]) if lengths else 0)


async def _relay(
    request: bytes, upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter], writer: asyncio.StreamWriter
) -> None:
    upstream[1].write(request)
    writer.write(await _message(upstream[0]))
    await writer.drain()


@asynccontextmanager
async def faulty_server(behind: CanvasServer) -> AsyncIterator[FaultyServer]:
    """A server that runs, without a fault yet."""
    server = FaultyServer(behind)
    await server.begin(Fault.NONE)
    try:
        yield server
    finally:
        with suppress(OSError):
            await server.begin(Fault.REFUSED)
