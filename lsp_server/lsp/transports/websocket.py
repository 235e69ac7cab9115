"""WebSocket: text frames, one message each, as editors in a browser speak it; binary frames are understood too.

A browser lets any web page connect to any port of this machine, and says in `Origin` which page it was. Pages are
refused unless they are on the list; programs, which send no `Origin`, are not.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from lsp_server.lsp.transports import MAX_BODY_BYTES, MAX_UNREAD_BYTES, Host, Talk, converse
from lsp_server.lsp.transports.address import Address

log = logging.getLogger(__name__)
FLUSH_S = 1.0


class Output:
    """Where one client's messages go: a queue, because sending may have to wait and writing must not."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._unsent_bytes = 0
        self._sending = asyncio.create_task(self._send())

    def write(self, body: bytes) -> None:
        """Send one message, unless the client has let too much pile up: then it is cut off."""
        if self._unsent_bytes > MAX_UNREAD_BYTES:
            log.warning("a client does not read its messages and is cut off")
            self._connection.transport.abort()
        elif not self._sending.done():
            self._unsent_bytes += len(body)
            self._queue.put_nowait(body)

    def close(self) -> None:
        """Send no more than what has been written."""
        self._queue.put_nowait(None)

    async def flushed(self) -> None:
        """Until all has gone out, but not for long."""
        await asyncio.wait({self._sending}, timeout=FLUSH_S)
        self._sending.cancel()

    async def _send(self) -> None:
        with suppress(ConnectionClosed):
            while (body := await self._queue.get()) is not None:
                await self._connection.send(body, text=True)
                self._unsent_bytes -= len(body)


async def listen(address: Address, host: Host, origins: Sequence[str]) -> tuple[Server, Address]:
    """Listen; the server, and the address with the port it has got. Raises OSError.

    `origins` are those of the web pages that may connect, such as `https://editor.example`.
    """

    async def greet(connection: ServerConnection) -> None:
        output = Output(connection)
        talk = host(output)
        try:
            await converse(talk, _listen_to(connection, talk))
        finally:
            output.close()
            await output.flushed()

    allowed = [None, *(Origin(origin) for origin in origins)]
    server = await serve(greet, address.host, address.port, origins=allowed, max_size=MAX_BODY_BYTES, compression=None)
    return server, Address(address.host, next(iter(server.sockets)).getsockname()[1])


async def _listen_to(connection: ServerConnection, talk: Talk) -> None:
    """Until the client goes, or sends what is no WebSocket frame or too long a one: the library then closes it."""
    async for message in connection:
        talk.receive(message.encode() if isinstance(message, str) else message)
        await asyncio.sleep(0)
