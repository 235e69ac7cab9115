"""Carries messages to and from the client over standard input and output, as opaque bytes.

pygls's own loop takes an HTTP request for a message, and sends binary frames.
"""

import asyncio
import logging
import os
import re
import select
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BufferedIOBase, RawIOBase

from lsp_server.lsp.protocol import InfillProtocol

log = logging.getLogger(__name__)
MAX_BODY_BYTES = 64 * 1024 * 1024
"""No editor sends longer messages; they would only fill the memory."""
MAX_UNREAD_BYTES = 32 * 1024 * 1024
"""A client that leaves more output than this unread is cut off."""
FLUSH_S = 1.0
"""The last messages to a client may take this long."""
_CHUNK_BYTES = 256 * 1024
_RETRY_S = 0.01
_HEADER_END = b"\r\n\r\n"
_TYPE = rb"(?:content-type\s*:[^\r\n]*\r\n)*"
_HEADER = re.compile(_TYPE + rb"content-length\s*:\s*(?P<length>\d{1,9})\s*?\r\n" + _TYPE + rb"\r\n", re.IGNORECASE)
Write = Callable[[bytes], None]
"""Sends one message. Never blocks and never raises; does nothing once the client is gone."""


StartConversation = Callable[[Write], InfillProtocol]


class FrameError(Exception):
    """A stream holds no frame, or an impossibly long one; nothing after it can be trusted."""


def encode_lsp_frame(body: bytes) -> bytes:
    return b"Content-Length: %d%b%b" % (len(body), _HEADER_END, body)


async def read_frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The body of each frame of a stream, until it ends. Raises FrameError."""
    with suppress(asyncio.IncompleteReadError):
        while True:
            try:
                header = _HEADER.fullmatch(await reader.readuntil(_HEADER_END))
            except asyncio.LimitOverrunError:
                header = None
            if header is None:
                raise FrameError("not a header of this protocol")
            length = int(header["length"])
            if length > MAX_BODY_BYTES:
                raise FrameError(f"a message is longer than {MAX_BODY_BYTES} bytes")
            yield await reader.readexactly(length)


class ConnectedClient:
    """A client. Queues the messages to it, because `send` may have to wait and writing must not."""

    def __init__(self, start: StartConversation, send: Callable[[bytes], Awaitable[object]]) -> None:
        self._send = send
        self._queue = asyncio.Queue[bytes | None]()
        self._unsent_bytes = 0
        self._is_cut_off = False
        self._sending = asyncio.create_task(self._send_all())
        self.conversation = start(self.write)

    def write(self, body: bytes) -> None:
        """Sends one message; cuts off a client that leaves too much unread."""
        if self._is_cut_off or self._sending.done():
            return
        if self._unsent_bytes > MAX_UNREAD_BYTES:
            log.warning("a client does not read its messages and is cut off")
            self._is_cut_off = True
            self._sending.cancel()
        else:
            self._unsent_bytes += len(body)
            self._queue.put_nowait(body)

    async def relay_messages(self, bodies: AsyncIterator[bytes]) -> None:
        """Passes on messages until the client leaves, says goodbye or is cut off."""
        receiving = asyncio.create_task(self._receive(bodies))
        goodbye = asyncio.create_task(self.conversation.ended.wait())
        try:
            await asyncio.wait({receiving, goodbye, self._sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            receiving.cancel()
            goodbye.cancel()
            await asyncio.gather(receiving, goodbye, return_exceptions=True)

    async def leave(self) -> None:
        """Ends the conversation, and briefly waits until all is sent."""
        await self.conversation.leave()
        self._queue.put_nowait(None)
        await asyncio.wait({self._sending}, timeout=FLUSH_S)
        self._sending.cancel()

    async def _receive(self, bodies: AsyncIterator[bytes]) -> None:
        try:
            async for body in bodies:
                self.conversation.receive(body)
                await asyncio.sleep(0)  # a client that never stops talking must not block what it asked for
        except FrameError as error:
            log.warning("a client is cut off: %s", error)

    async def _send_all(self) -> None:
        with suppress(Exception):  # the client is gone
            while (body := await self._queue.get()) is not None:
                await self._send(body)
                self._unsent_bytes -= len(body)


def connect_stdio(start: StartConversation) -> tuple[ConnectedClient, AsyncIterator[bytes]]:
    """The client at the process's own streams, and its messages. Neither stream can block the server."""
    stream = _take_stdout()
    reader = threaded_reader(os.fdopen(os.dup(0), "rb"))
    return ConnectedClient(start, threaded_writer(stream)), read_frames(reader)


def threaded_writer(stream: RawIOBase) -> Callable[[bytes], Awaitable[None]]:
    """Sends messages to a blocking stream, in a thread of their own if they may have to wait."""
    thread = ThreadPoolExecutor(1, "stdout")

    async def send(body: bytes) -> None:
        data = encode_lsp_frame(body)
        sent = (stream.write(data) or 0) if _takes_at_once(stream, len(data)) else 0
        if sent < len(data):
            await asyncio.get_running_loop().run_in_executor(thread, _write_all, stream, data[sent:])

    return send


def _takes_at_once(stream: RawIOBase, size: int) -> bool:
    """Whether writing `size` bytes cannot block: a writable pipe takes up to `PIPE_BUF` bytes at once."""
    return os.name != "nt" and size <= select.PIPE_BUF and bool(select.select([], [stream], [], 0)[1])


def threaded_reader(stream: BufferedIOBase) -> asyncio.StreamReader:
    """A reader of a blocking stream, which ends when the stream ends or breaks."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()

    def feed() -> None:
        with suppress(RuntimeError):  # the loop has closed meanwhile
            try:
                while data := stream.read1(_CHUNK_BYTES):
                    loop.call_soon_threadsafe(reader.feed_data, data)
            except Exception as error:
                log.info("reading ended: %s", type(error).__name__)
            finally:  # a server without input must not live on
                loop.call_soon_threadsafe(reader.feed_eof)

    threading.Thread(target=feed, name="stdin", daemon=True).start()
    return reader


def _write_all(stream: RawIOBase, data: bytes) -> None:
    remaining = memoryview(data)
    while remaining:
        count = stream.write(remaining)
        if count is None:  # another process sharing the stream has made it non-blocking
            time.sleep(_RETRY_S)
        remaining = remaining[count or 0 :]


def _take_stdout() -> RawIOBase:
    """Standard output for us alone, unbuffered: what a library writes to it goes to stderr from now on."""
    sys.stdout.flush()
    own_stdout = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    if os.name == "nt":
        import msvcrt

        msvcrt.setmode(own_stdout.fileno(), os.O_BINARY)  # type: ignore[attr-defined,unused-ignore]
    return own_stdout
