"""TCP: any number of clients, one after another and at the same time. One that goes takes nothing with it."""

import asyncio
import logging

from lsp_server.lsp.transports import MAX_UNREAD_BYTES, Host, Talk, converse
from lsp_server.lsp.transports.address import Address
from lsp_server.lsp.transports.framing import FrameError, Frames, framed

log = logging.getLogger(__name__)
_CHUNK_BYTES = 256 * 1024


class Output:
    """Where one client's frames go."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    def write(self, body: bytes) -> None:
        """Send one message, unless the client has let too much pile up: then it is cut off."""
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


async def listen(address: Address, host: Host) -> tuple[asyncio.Server, Address]:
    """Listen; the server, and the address with the port it has got. Raises OSError."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        output = Output(writer)
        talk = host(output)
        try:
            await converse(talk, _listen_to(reader, talk))
        finally:
            output.close()

    server = await asyncio.start_server(greet, address.host, address.port)
    return server, Address(address.host, server.sockets[0].getsockname()[1])


async def _listen_to(reader: asyncio.StreamReader, talk: Talk) -> None:
    frames = Frames(strict=True)
    try:
        while data := await reader.read(_CHUNK_BYTES):
            for body in frames.feed(data):
                talk.receive(body)
            await asyncio.sleep(0)  # one that never stops talking must not keep the others waiting
    except FrameError as error:
        log.warning("a client is cut off: %s", error)
    except OSError:
        log.info("a client is gone")
