"""Carry messages to and from clients over standard input and output, TCP or WebSocket, as opaque bytes."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Protocol

MAX_BODY_BYTES = 64 * 1024 * 1024
"""No editor sends longer messages; they would only fill the memory."""
MAX_UNREAD_BYTES = 64 * 1024 * 1024
"""Treat the one client of stdio as gone when it leaves more output than this unread."""
MAX_QUEUED_BYTES = 8 * 1024 * 1024
"""With several clients, cut one off sooner."""
MAX_HEADER_BYTES = 16 * 1024
FLUSH_S = 1.0
"""The last messages to a client may take this long."""
LEAVE_S = 5.0
"""Limit for all clients to leave when the server ends; longer than any client that does not hang needs."""
_TYPE = rb"(?:content-type\s*:[^\r\n]*\r\n)*"
_HEADER = re.compile(_TYPE + rb"content-length\s*:\s*(?P<length>\d{1,9})\s*?\r\n" + _TYPE + rb"\r\n", re.IGNORECASE)


class ByteWriter(Protocol):
    """Where one client's messages go. Never blocks and never raises; does nothing once the client is gone."""

    def write(self, body: bytes) -> None:
        """Sends one message."""

    def close(self) -> None:
        """Stops sending, once all is sent."""

    async def flushed(self) -> None:
        """Waits briefly until all output is sent; the writer must be closed first."""


class Conversation(Protocol):
    """The server's side of the conversation with one client. `ended` is set when the client has said goodbye."""

    ended: asyncio.Event

    def receive(self, body: bytes) -> None:
        """Handles one message from the client before the next is read. Never raises."""

    async def leave(self) -> None:
        """The client is gone: stops its requests."""


StartConversation = Callable[[ByteWriter], Conversation]
"""Called for each client that connects, with a writer for its messages."""


class FrameError(Exception):
    """A stream holds no frame, or an impossibly long one; nothing after it can be trusted. So the body of a browser's
    HTTP request never passes for a message.
    """


def framed(body: bytes) -> bytes:
    """One message as sent over a stream."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class Frames:
    """Splits a byte stream into messages, each a `Content-Length` header and a body."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bodies that `data` completes. Raises FrameError."""
        self._data += data
        while head := _HEADER.match(self._data):
            length = int(head["length"])
            if length > MAX_BODY_BYTES:
                raise FrameError(f"a message is longer than {MAX_BODY_BYTES} bytes")
            if len(self._data) < head.end() + length:
                return
            body = bytes(self._data[head.end() : head.end() + length])
            del self._data[: head.end() + length]
            yield body
        if b"\r\n\r\n" in self._data[:MAX_HEADER_BYTES] or len(self._data) >= MAX_HEADER_BYTES:
            raise FrameError("not a header of this protocol")


class ListeningServer:
    """The conversations with all connected clients. `stop`, once set, closes the door to new ones."""

    def __init__(self, start_conversation: StartConversation) -> None:
        self.stop: Callable[[], None] = lambda: None
        self._start = start_conversation
        self._conversations: dict[asyncio.Task[Any], Conversation] = {}

    async def serve(self, output: ByteWriter, listen: Callable[[Conversation], Coroutine[Any, Any, None]]) -> None:
        """Runs `listen`, which passes on messages, until it ends or the client says goodbye. Call it in a task."""
        conversation = self._start(output)
        if current := asyncio.current_task():
            self._conversations[current] = conversation
            current.add_done_callback(self._conversations.pop)
        tasks = {asyncio.create_task(listen(conversation)), asyncio.create_task(conversation.ended.wait())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await conversation.leave()
            output.close()
            await output.flushed()

    async def close(self) -> None:
        """Stops accepting clients and leaves the current ones; does not wait for a hung one longer than `LEAVE_S`."""
        self.stop()
        for conversation in self._conversations.values():
            conversation.ended.set()
        if tasks := tuple(self._conversations):
            await asyncio.wait(tasks, timeout=LEAVE_S)
