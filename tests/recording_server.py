"""A real HTTP server for tests, on this machine, that records all it is sent and refuses to fill.

It says of itself what a vLLM with a canvas of 64 tokens says, so that a worker takes it for one. No model: what a real
vLLM answers, `tests/served` tests.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

CANVAS_TOKENS = 64
_REFUSED = "this server only records"
_WIDTH = f"diffusion_seed_canvas must hold exactly {CANVAS_TOKENS} ids"


@dataclass(frozen=True)
class Recorded:
    """One request: its first line, its headers by their names in lower case, and its body."""

    line: str
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> dict[str, Any]:
        """The body."""
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass
class RecordingServer:
    """All requests so far. With a `token`, one without it is refused; with `elsewhere`, all are redirected there."""

    url: str = ""
    token: str = ""
    elsewhere: str = ""
    requests: list[Recorded] = field(default_factory=list)
    connections: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def fills(self) -> list[dict[str, Any]]:
        """What was asked to be filled."""
        bodies = [asked.json for asked in self.requests if asked.line.startswith("POST /v1/completions")]
        return [body for body in bodies if len(body["prompt"]) > 1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections.add(writer)
        with suppress(OSError, EOFError):
            while True:
                first = await reader.readexactly(1)
                if not first.isalpha():
                    writer.write(_response("400 Bad Request", {"error": "Invalid HTTP request received."}))
                    break
                asked = await _read(first, reader)
                self.requests.append(asked)
                writer.write(self._answer(asked))
                await writer.drain()
        self.connections.discard(writer)
        writer.close()

    def _answer(self, asked: Recorded) -> bytes:
        if self.elsewhere:
            return _response("307 Elsewhere", {}, f"Location: {self.elsewhere}{asked.line.split()[1]}\r\n")
        if self.token and asked.headers.get("authorization") != f"Bearer {self.token}":
            return _response("401 Unauthorized", {"error": "Unauthorized"})
        if asked.line.startswith("GET /v1/models"):
            return _response("200 OK", {"object": "list", "data": [{"id": "gemma", "max_model_len": 2048}]})
        if asked.line.startswith("GET /version"):
            return _response("200 OK", {"version": "0.32.0"})
        message = _REFUSED if len(asked.json["prompt"]) > 1 else _WIDTH
        return _response("400 Bad Request", {"error": {"message": message}})


async def _read(first: bytes, reader: asyncio.StreamReader) -> Recorded:
    head = (first + await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Recorded(head[0], headers, body.decode())


def _response(status: str, value: object, more: str = "") -> bytes:
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


@asynccontextmanager
async def recording_server(certified: ssl.SSLContext | None = None) -> AsyncIterator[RecordingServer]:
    """A server that runs; over TLS where it has a certificate."""
    server = RecordingServer()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=certified)
    scheme = "https" if certified else "http"
    server.url = f"{scheme}://localhost:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listening.close()
        for connection in server.connections:
            connection.close()
        await listening.wait_closed()
