"""Carries messages to and from clients over standard input and output or TCP, as opaque bytes.

pygls's own loops take a web page's HTTP request for a message, send binary frames, and end with their first client.
"""

import argparse
import asyncio
import ipaddress
import logging
import os
import re
import select
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedIOBase, RawIOBase

from inference.remote.access import AccessControl
from lsp_server.lsp.protocol import InfillProtocol, refusal_without_token, token_in_initialize

log = logging.getLogger(__name__)
MAX_BODY_BYTES = 64 * 1024 * 1024
"""No editor sends longer messages; they would only fill the memory."""
MAX_UNREAD_BYTES = 32 * 1024 * 1024
"""A client that leaves more output than this unread is cut off."""
FLUSH_S = 1.0
"""The last messages to a client may take this long."""
LEAVE_S = 5.0
"""Limit for all clients to leave when the server ends; longer than any client that does not hang needs."""
MAX_FIRST_BYTES = 256 * 1024
"""How long the first message may be of a client that has still to bring the token."""
FIRST_S = 10.0
"""How long it may take to arrive."""
MAX_STRANGERS = 64
"""How many such clients may be connected at a time."""
_CHUNK_BYTES = 256 * 1024
_RETRY_S = 0.01
_HEADER_END = b"\r\n\r\n"
_TYPE = rb"(?:content-type\s*:[^\r\n]*\r\n)*"
_HEADER = re.compile(_TYPE + rb"content-length\s*:\s*(?P<length>\d{1,9})\s*?\r\n" + _TYPE + rb"\r\n", re.IGNORECASE)
Write = Callable[[bytes], None]
"""Sends one message. Never blocks and never raises; does nothing once the client is gone."""


StartConversation = Callable[[Write, bool], InfillProtocol]
"""Called for each client that connects and is let in, with whether it is certainly the user's own program."""


class FrameError(Exception):
    """A stream holds no frame, or an impossibly long one; nothing after it can be trusted. So the body of a browser's
    HTTP request never passes for a message.
    """


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d%b%b" % (len(body), _HEADER_END, body)


async def frames(
    reader: asyncio.StreamReader, max_bytes: Callable[[], int] = lambda: MAX_BODY_BYTES
) -> AsyncIterator[bytes]:
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
            if length > max_bytes():
                raise FrameError(f"a message is longer than {max_bytes()} bytes")
            yield await reader.readexactly(length)


class ConnectedClient:
    """One connected client. Queues its messages, because `send` may have to wait and writing must not."""

    def __init__(
        self,
        start: Callable[[Write], InfillProtocol],
        send: Callable[[bytes], Awaitable[object]],
        abort: Callable[[], object] = lambda: None,
    ) -> None:
        self._send = send
        self._abort = abort
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
            self._abort()
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
                await asyncio.sleep(0)  # a client that never stops talking must not block the others
        except FrameError as error:
            log.warning("a client is cut off: %s", error)

    async def _send_all(self) -> None:
        try:
            while (body := await self._queue.get()) is not None:
                await self._send(body)
                self._unsent_bytes -= len(body)
        except Exception as error:
            log.info("a client is gone: %s", type(error).__name__)


def stdio(start: StartConversation) -> tuple[ConnectedClient, AsyncIterator[bytes]]:
    """The client at the process's own streams, and its messages. Neither stream can block the server."""
    stream = _take_stdout()
    reader = read_in_thread(os.fdopen(os.dup(0), "rb"))
    return ConnectedClient(lambda write: start(write, True), writing_in_thread(stream)), frames(reader)


def writing_in_thread(stream: RawIOBase) -> Callable[[bytes], Awaitable[None]]:
    """Sends messages to a blocking stream, in a thread of their own if they may have to wait."""
    thread = ThreadPoolExecutor(1, "stdout")

    async def send(body: bytes) -> None:
        data = framed(body)
        sent = (stream.write(data) or 0) if _takes_at_once(stream, len(data)) else 0
        if sent < len(data):
            await asyncio.get_running_loop().run_in_executor(thread, _write_all, stream, data[sent:])

    return send


def _takes_at_once(stream: RawIOBase, size: int) -> bool:
    """Whether writing so many bytes cannot block: a pipe with room takes `PIPE_BUF` of them, and all or none."""
    return os.name != "nt" and size <= select.PIPE_BUF and bool(select.select([], [stream], [], 0)[1])


def read_in_thread(stream: BufferedIOBase) -> asyncio.StreamReader:
    """What a blocking stream holds, which ends when that ends or breaks."""
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
    ours = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    if os.name == "nt":
        import msvcrt

        msvcrt.setmode(ours.fileno(), os.O_BINARY)  # type: ignore[attr-defined,unused-ignore]
    return ours


@dataclass(frozen=True)
class ListenAddress:
    """A host, by name or number, and a port; 0 means any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def resolved(self) -> "ListenAddress":
        """The same with the host as a number. Raises OSError for an unknown host."""
        addresses = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        ipv4_first = sorted(addresses, key=lambda entry: entry[0] is not socket.AF_INET)
        return ListenAddress(str(ipv4_first[0][4][0]), self.port)

    def listen(self) -> socket.socket:
        """A socket that listens here; the address must be resolved. Raises OSError."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        return socket.create_server((self.host, self.port), family=family)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it; the address must be resolved."""
        return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback


def parse_listen_address(text: str) -> ListenAddress:
    """An address from the command line; loopback without a host. Raises ArgumentTypeError."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port[:6]) <= 65535):
        raise argparse.ArgumentTypeError(f"'{text}' is not [HOST:]PORT with a port from 0 to 65535, 0 for any free one")
    return ListenAddress(host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port))


@dataclass
class Connection:
    """A connection that was just made. `end` ends it such that what was sent still arrives; `set_max_bytes` sets how
    many bytes its messages may have.
    """

    socket: socket.socket
    bodies: AsyncIterator[bytes]
    send: Callable[[bytes], Awaitable[object]]
    abort: Callable[[], object]
    end: Callable[[], Awaitable[object]]
    set_max_bytes: Callable[[int], object]


class Listener:
    """The connected clients, any number of them: one that leaves does not affect the others."""

    def __init__(self, start: StartConversation, access: AccessControl) -> None:
        self.stops: list[Callable[[], object]] = []
        """Each closes a door to new clients."""
        self._start = start
        self._access = access
        self._clients: dict[asyncio.Task[None], ConnectedClient | None] = {}
        self._strangers = 0

    def add(self, connection: Connection) -> None:
        task = asyncio.create_task(self._serve(connection))
        self._clients[task] = None
        task.add_done_callback(self._clients.pop)
        task.add_done_callback(lambda _: connection.abort())

    async def close(self) -> None:
        """Stops accepting clients and leaves the current ones; does not wait for a hung one longer than `LEAVE_S`."""
        for stop in self.stops:
            stop()
        for task, client in self._clients.items():
            if client is None:
                task.cancel()
            else:
                client.conversation.ended.set()
        if tasks := tuple(self._clients):
            await asyncio.wait(tasks, timeout=LEAVE_S)

    async def _serve(self, connection: Connection) -> None:
        is_user = await self._access.is_user(connection.socket)
        first = None
        if self._access.needs_token(is_user=is_user):
            first = await self._first_with_token(connection)
            if first is None:
                return
        connection.set_max_bytes(MAX_BODY_BYTES)
        client = ConnectedClient(lambda write: self._start(write, is_user), connection.send, connection.abort)
        if task := asyncio.current_task():
            self._clients[task] = client
        if first is not None:
            client.conversation.receive(first)
        try:
            await client.relay_messages(connection.bodies)
        finally:
            await client.leave()

    async def _first_with_token(self, connection: Connection) -> bytes | None:
        """The first message of a client that must bring the token in it; None if it does not, and is refused."""
        if self._strangers >= MAX_STRANGERS:
            log.info("a client without a token is dropped: %d others have not brought theirs", MAX_STRANGERS)
            return None
        self._strangers += 1
        try:
            async with asyncio.timeout(FIRST_S):
                first = await anext(connection.bodies)
                if self._access.is_token(token_in_initialize(first)):
                    return first
                log.warning("a client of another user, machine or container is refused: it did not bring the token")
                await connection.send(refusal_without_token(first))
                await connection.end()
        except (FrameError, StopAsyncIteration, TimeoutError, OSError) as error:
            log.info("a client without a token is dropped: %s", type(error).__name__)
        finally:
            self._strangers -= 1
        return None


async def listen_tcp(sockets: Sequence[socket.socket], start: StartConversation, access: AccessControl) -> Listener:
    """Accepts clients over TCP."""
    listener = Listener(start, access)

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Not a coroutine, because asyncio writes a traceback to stderr if one is cancelled."""
        writer.transport.set_write_buffer_limits(0)  # so that what is sent has left this process

        async def send(body: bytes) -> None:
            writer.write(framed(body))
            await writer.drain()

        async def end() -> None:
            """Reads what comes for a moment: closing with unread input would lose the message."""
            writer.write_eof()
            with suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_S):
                    while await reader.read(_CHUNK_BYTES):
                        pass

        limits = [MAX_FIRST_BYTES]
        bodies = frames(reader, lambda: limits[-1])
        own = writer.get_extra_info("socket")
        listener.add(Connection(own, bodies, send, writer.transport.abort, end, limits.append))

    for listening in sockets:
        listener.stops.append((await asyncio.start_server(connected, sock=listening)).close)
    return listener
