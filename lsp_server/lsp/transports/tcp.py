"""TCP: any number of clients, at the same time or one after another; one that leaves does not affect the others."""

import asyncio
import logging
from contextlib import suppress

from lsp_server.lsp.transports import FLUSH_S, MAX_UNREAD_BYTES, Clients, Conversation, Listener, StartConversation
from lsp_server.lsp.transports.address import Address
from lsp_server.lsp.transports.framing import FrameError, Frames, framed

log = logging.getLogger(__name__)
_CHUNK_BYTES = 256 * 1024


class TcpWriter:
    """Writes one client's frames."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def write(self, body: bytes) -> None:
        """Send one message; cut off a client that has let too much pile up."""
        if self._writer.is_closing():
            return
        if self._writer.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            log.warning("a client does not read its messages and is cut off")
            self._writer.transport.abort()
        else:
            self._writer.write(framed(body))

    def close(self) -> None:
        """Close once all is sent."""
        self._writer.close()

    async def flushed(self) -> None:
        """Wait until all has gone out, but not for long; the writer must have been closed."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                await self._writer.wait_closed()


async def listen(address: Address, start_conversation: StartConversation) -> tuple[Listener, Address]:
    """Listen, at the address that is returned, with the port that was given. Raises OSError."""
    clients = Clients()

    async def serve(reader: asyncio.StreamReader, output: TcpWriter) -> None:
        conversation = start_conversation(output)
        try:
            await clients.serve(conversation, _listen_to(reader, conversation))
        finally:
            output.close()
            await output.flushed()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """No coroutine: of one that is cancelled, asyncio would write a traceback to stderr."""
        started.add(task := asyncio.create_task(serve(reader, TcpWriter(writer))))
        task.add_done_callback(started.discard)

    started: set[asyncio.Task[None]] = set()
    server = await asyncio.start_server(connected, address.host, address.port)
    return Listener(server.close, clients), Address(address.host, server.sockets[0].getsockname()[1])


async def _listen_to(reader: asyncio.StreamReader, conversation: Conversation) -> None:
    frames = Frames(strict=True)
    try:
        while data := await reader.read(_CHUNK_BYTES):
            for body in frames.feed(data):
                conversation.receive(body)
            await asyncio.sleep(0)  # one that never stops talking must not keep the others waiting
    except FrameError as error:
        log.warning("a client is cut off: %s", error)
    except OSError:
        log.info("a client is gone")
