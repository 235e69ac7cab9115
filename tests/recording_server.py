"""A real HTTP server for tests: it calls itself a vLLM with a canvas of 64 tokens, records all, and fills nothing."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.http_server import HttpRequest, HttpServer, listening, response

CANVAS_TOKENS = 64
_REFUSED = "this server only records"
_WIDTH = f"diffusion_seed_canvas must hold exactly {CANVAS_TOKENS} ids"


@dataclass
class RecordingServer(HttpServer):
    """With `elsewhere`, all requests are redirected there."""

    elsewhere: str = ""

    @property
    def fills(self) -> list[dict[str, Any]]:
        bodies = [asked.json for asked in self.requests if asked.line.startswith("POST /v1/completions")]
        return [body for body in bodies if len(body["prompt"]) > 1]

    async def reply(self, request: HttpRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.elsewhere:
            writer.write(response(307, {}, {"Location": self.elsewhere + request.path}))
        elif request.path == "/v1/models":
            writer.write(response(200, {"object": "list", "data": [{"id": "gemma", "max_model_len": 2048}]}))
        elif request.path == "/version":
            writer.write(response(200, {"version": "0.32.0"}))
        else:
            message = _REFUSED if len(request.json["prompt"]) > 1 else _WIDTH
            writer.write(response(400, {"error": {"message": message}}))


@asynccontextmanager
async def recording_server(certified: ssl.SSLContext | None = None) -> AsyncIterator[RecordingServer]:
    """A server that runs; over TLS where it has a certificate."""
    async with listening(RecordingServer(), certified=certified, host="localhost") as server:
        yield server
