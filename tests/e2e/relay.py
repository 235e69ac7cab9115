"""A relay in place of a worker: forwards both sides' messages and records the requests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from inference.messages import LENGTH_BYTES, InfillRequest, decode_client_message
from tests.workers import short_folder


class Relay:
    """Between clients in `folder`, their runtime folder, and the worker at a socket elsewhere."""

    def __init__(self, folder: Path, worker: Path) -> None:
        self.folder = folder
        self.requests: list[InfillRequest] = []
        self._worker = worker

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_unix_connection(self._worker)
        answering = asyncio.create_task(self._answer(back, writer))
        while True:
            try:
                length = await reader.readexactly(LENGTH_BYTES)
            except asyncio.IncompleteReadError:
                break
            body = await reader.readexactly(int.from_bytes(length, "big"))
            message = decode_client_message(body)
            if isinstance(message, InfillRequest):
                self.requests.append(message)
            forth.write(length + body)
        forth.close()
        await answering

    async def _answer(self, worker: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while data := await worker.read(1 << 16):
            client.write(data)
        client.close()


@asynccontextmanager
async def relay_to(worker: Path, name: str = "") -> AsyncIterator[Relay]:
    """A relay to the worker at a socket. `name` is that of the socket where clients look; by default the same."""
    with short_folder() as folder:
        relay = Relay(Path(folder), worker)
        async with await asyncio.start_unix_server(relay.serve, relay.folder / (name or worker.name)):
            yield relay
