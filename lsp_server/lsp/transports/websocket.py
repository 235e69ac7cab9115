"""WebSocket, for editors in a browser: one message per text frame; also accepts binary frames.

A browser lets any web page connect, and names it in `Origin`. Refuses pages that are not on the list.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from lsp_server.lsp.transports import (
    FLUSH_S,
    MAX_BODY_BYTES,
    MAX_QUEUED_BYTES,
    Conversation,
    ListeningServer,
    StartConversation,
)
from lsp_server.lsp.transports.address import ListenAddress

log = logging.getLogger(__name__)


class WebSocketWriter:
    """Queues one client's messages, because sending may have to wait and writing must not."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._unsent_bytes = 0
        self._sending = asyncio.create_task(self._send())

    def write(self, body: bytes) -> None:
        """Sends one message; cuts off a client with too much unread output."""
        if self._sending.done() or self._connection.transport.is_closing():
            return
        if self._unsent_bytes > MAX_QUEUED_BYTES:
            log.warning("a client does not read its messages and is cut off")
            self._connection.transport.abort()
        else:
            self._unsent_bytes += len(body)
            self._queue.put_nowait(body)

    def close(self) -> None:
        """Sends what has been written, then stops."""
        self._queue.put_nowait(None)

    async def flushed(self) -> None:
        """Waits briefly until all output is sent."""
        await asyncio.wait({self._sending}, timeout=FLUSH_S)
        self._sending.cancel()

    async def _send(self) -> None:
        with suppress(ConnectionClosed):
            while (body := await self._queue.get()) is not None:
                await self._connection.send(body, text=True)
                self._unsent_bytes -= len(body)


async def listen(
    address: ListenAddress, start_conversation: StartConversation, origins: Sequence[str]
) -> tuple[ListeningServer, ListenAddress]:
    """Listens for pages of `origins` and for programs; returns the address, with the actual port. Raises OSError."""
    listener = ListeningServer(start_conversation)

    async def connected(connection: ServerConnection) -> None:
        await listener.serve(WebSocketWriter(connection), partial(_listen_to, connection))

    allowed = [None, *(Origin(origin) for origin in origins)]
    server = await serve(
        connected, address.host, address.port, origins=allowed, max_size=MAX_BODY_BYTES, compression=None
    )
    listener.stop = partial(server.close, close_connections=False)
    return listener, ListenAddress(address.host, next(iter(server.sockets)).getsockname()[1])


async def _listen_to(connection: ServerConnection, conversation: Conversation) -> None:
    """Passes on messages until the client leaves, or the library closes the connection over a bad or overlong frame."""
    async for message in connection:
        conversation.receive(message.encode() if isinstance(message, str) else message)
        await asyncio.sleep(0)
