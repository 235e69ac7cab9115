"""TCP: any number of clients, concurrently or in turn; one that leaves does not affect the others."""

import asyncio
import logging
from contextlib import suppress
from functools import partial

from lsp_server.lsp.transports import (
    FLUSH_S,
    MAX_QUEUED_BYTES,
    Conversation,
    FrameError,
    Frames,
    ListeningServer,
    StartConversation,
    framed,
)
from lsp_server.lsp.transports.address import ListenAddress

log = logging.getLogger(__name__)
UNREAD_S = 30.0
"""Cut off a client whose output stalls this long with more than `_HIGH_BYTES` unread."""
_HIGH_BYTES = 1024 * 1024
"""Stop reading from a client that leaves more output than this unread, until it has read some."""
_CHUNK_BYTES = 256 * 1024


class TcpWriter:
    """Writes one client's frames."""

    def __init__(self, writer: asyncio.StreamWriter, unread_s: float) -> None:
        self._writer = writer
        self._unread_s = unread_s
        writer.transport.set_write_buffer_limits(_HIGH_BYTES)

    def write(self, body: bytes) -> None:
        """Sends one message; cuts off a client with too much unread output."""
        if self._writer.is_closing():
            return
        if self._writer.transport.get_write_buffer_size() > MAX_QUEUED_BYTES:
            self._cut_off()
        else:
            self._writer.write(framed(body))

    async def read(self) -> None:
        """Waits until the client has read most of the output, or cuts it off. Raises OSError."""
        try:
            async with asyncio.timeout(self._unread_s):
                await self._writer.drain()
        except TimeoutError:
            self._cut_off()

    def _cut_off(self) -> None:
        log.warning("a client does not read its messages and is cut off")
        self._writer.transport.abort()

    def close(self) -> None:
        """Closes once all is sent."""
        self._writer.close()

    async def flushed(self) -> None:
        """Waits briefly until all output is sent; the writer must be closed first."""
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                await self._writer.wait_closed()


async def listen(
    address: ListenAddress, start_conversation: StartConversation, *, unread_s: float = UNREAD_S
) -> tuple[ListeningServer, ListenAddress]:
    """Listens; returns the address, with the actual port. Raises OSError."""
    listener = ListeningServer(start_conversation)
    started: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Not a coroutine, because asyncio writes a traceback to stderr if one is cancelled."""
        output = TcpWriter(writer, unread_s)
        started.add(task := asyncio.create_task(listener.serve(output, partial(_listen_to, reader, output))))
        task.add_done_callback(started.discard)

    server = await asyncio.start_server(connected, address.host, address.port)
    listener.stop = server.close
    return listener, ListenAddress(address.host, server.sockets[0].getsockname()[1])


async def _listen_to(reader: asyncio.StreamReader, output: TcpWriter, conversation: Conversation) -> None:
    """A client that never stops talking, or never reads, must not block the others."""
    frames = Frames()
    try:
        while data := await reader.read(_CHUNK_BYTES):
            for body in frames.feed(data):
                conversation.receive(body)
                await asyncio.sleep(0)
            await output.read()
    except FrameError as error:
        log.warning("a client is cut off: %s", error)
    except OSError:
        log.info("a client is gone")
