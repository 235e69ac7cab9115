"""A real HTTP server for tests, on this machine: it stands in for a server that has a model, and answers with texts.

It speaks no protocol of vLLM's. `tests/served` runs a real vLLM; here what stands between a client and whatever such a
server answers is tested.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Asked:
    """One request that the server was sent."""

    head: str
    body: dict[str, Any]
    aborted: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class TextServer:
    """Answers `POST` with the text `answer` for each hole, one line of JSON each, after a draft.

    `go` is cleared by a test that wants answers held back behind the draft. `status` other than 200 refuses.
    """

    answer: str = "filled"
    status: int = 200
    go: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[Asked] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    running: int = 0
    most_running: int = 0
    url: str = ""
    connections: set[asyncio.StreamWriter] = field(default_factory=set)

    async def until_asked(self, count: int) -> None:
        """Wait until so many requests have come."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.asked) >= count)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, which may send several requests."""
        self.connections.add(writer)
        with suppress(OSError, EOFError):
            while True:
                await self._answer(await _read(reader), reader, writer)
        self.connections.discard(writer)
        writer.close()

    async def _answer(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self.changed:
            self.asked.append(asked)
            self.changed.notify_all()
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        gone = asyncio.create_task(reader.read(1))  # a client that waits for its answer sends nothing
        try:
            if self.status != 200:
                writer.write(f"HTTP/1.1 {self.status} No\r\nContent-Length: 0\r\n\r\n".encode())
                return
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + _chunk({"draft": "half"}))
            going = asyncio.create_task(self.go.wait())
            await asyncio.wait({gone, going}, return_when=asyncio.FIRST_COMPLETED)
            going.cancel()
            if gone.done():
                asked.aborted.set()
                raise EOFError
            writer.write(_chunk({"fill": self.answer}) + b"0\r\n\r\n")
        finally:
            self.running -= 1
            gone.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await gone


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(line for line in head.splitlines() if line.lower().startswith("content-length:"))
    return Asked(head, json.loads(await reader.readexactly(int(length.partition(":")[2]))))


def _chunk(value: object) -> bytes:
    data = json.dumps(value).encode() + b"\n"
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@asynccontextmanager
async def text_server() -> AsyncIterator[TextServer]:
    """A server that runs, and answers at once."""
    server = TextServer()
    server.go.set()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        for connection in server.connections:
            connection.close()
        await listening.wait_closed()
