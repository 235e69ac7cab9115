"""A real HTTP server for tests that answers with texts; it speaks no protocol of vLLM, which `tests/served` runs."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.http_server import HttpRequest, HttpServer, chunk, listening, response


@dataclass
class Asked:
    head: str
    body: dict[str, Any]
    aborted: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class TextServer(HttpServer):
    """Answers `POST` with the text `answer` for each hole, one line of JSON each, after a draft.

    `go` is cleared by a test that wants answers held back behind the draft. `status` other than 200 refuses.
    """

    answer: str = "filled"
    status: int = 200
    go: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[Asked] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    most_running: int = 0

    async def until_asked(self, count: int) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.asked) >= count)

    async def reply(self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = Asked(request.line, request.json)
        async with self.changed:
            self.asked.append(asked)
            self.changed.notify_all()
        self.most_running = max(self.most_running, self.running + 1)
        if self.status != 200:
            writer.write(response(self.status, {}))
            return
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + _part({"draft": "half"}))
        try:
            await self.unless_gone(reader, self.go.wait())
        except EOFError:
            asked.aborted.set()
            raise
        writer.write(_part({"fill": self.answer}) + b"0\r\n\r\n")


def _part(value: object) -> bytes:
    return chunk(json.dumps(value).encode() + b"\n")


@asynccontextmanager
async def text_server() -> AsyncIterator[TextServer]:
    server = TextServer()
    server.go.set()
    async with listening(server):
        yield server
