"""Standard input and output, each in its own thread, so that neither can block the server: one client."""

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from io import BufferedIOBase, RawIOBase
from queue import SimpleQueue
from typing import TypeVar

from lsp_server.lsp.transports import FLUSH_S, MAX_UNREAD_BYTES, ByteWriter, Conversation, FrameError, Frames, framed

log = logging.getLogger(__name__)
_CHUNK_BYTES = 256 * 1024
_RETRY_S = 0.01
T = TypeVar("T", bound=Conversation)


def start(start_conversation: Callable[[ByteWriter], T]) -> tuple[T, "StdioWriter"]:
    """Starts the conversation with the one client; also sets its `ended` when the client is gone."""
    loop = asyncio.get_running_loop()

    def on_lost() -> None:
        with suppress(RuntimeError):  # the loop has closed meanwhile
            loop.call_soon_threadsafe(conversation.ended.set)

    output = StdioWriter(take_stdout(), on_lost)
    conversation = start_conversation(output)
    read_in_thread(os.fdopen(os.dup(0), "rb"), conversation.receive, conversation.ended.set)
    return conversation, output


class StdioWriter:
    """Writes frames in its own thread. Once the client is gone, calls `on_lost` there and drops all frames."""

    def __init__(self, stream: RawIOBase, on_lost: Callable[[], None]) -> None:
        self._stream = stream
        self._on_lost = on_lost
        self._frames: SimpleQueue[bytes | None] = SimpleQueue()
        self._written_bytes = self._sent_bytes = 0
        self._gone = False
        self._thread = threading.Thread(target=self._send, name="stdout", daemon=True)
        self._thread.start()

    def write(self, body: bytes) -> None:
        """Sends one message; a client with too much unread output counts as gone."""
        if self._gone:
            return
        if self._written_bytes - self._sent_bytes > MAX_UNREAD_BYTES:
            log.error("the client does not read its messages: the server ends")
            self._lose()
        else:
            frame = framed(body)
            self._written_bytes += len(frame)
            self._frames.put(frame)

    def close(self) -> None:
        """Sends what has been written, then stops. The stream is the process's own and stays open."""
        self._frames.put(None)

    async def flushed(self) -> None:
        """Waits briefly until all output is sent; the writer must be closed first."""
        await asyncio.to_thread(self._thread.join, FLUSH_S)

    def _send(self) -> None:
        try:
            while (frame := self._frames.get()) is not None:
                _write_all(self._stream, frame)
                self._sent_bytes += len(frame)
        except (OSError, ValueError):  # ValueError: the stream is closed
            self._lose()

    def _lose(self) -> None:
        self._gone = True
        self._on_lost()


def _write_all(stream: RawIOBase, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        written = stream.write(rest)
        if written is None:  # another process sharing the stream has made it non-blocking
            time.sleep(_RETRY_S)
        rest = rest[written or 0 :]


def take_stdout() -> RawIOBase:
    """Standard output for us alone, unbuffered: what a library writes to it goes to stderr from now on."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    if os.name == "nt":
        import msvcrt

        msvcrt.setmode(ours.fileno(), os.O_BINARY)  # type: ignore[attr-defined,unused-ignore]
    return ours


def read_in_thread(stream: BufferedIOBase, receive: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
    """Passes each frame's body to `receive` on the running event loop; calls `on_end` after the last."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        frames = Frames()
        try:
            while data := stream.read1(_CHUNK_BYTES):
                for body in frames.feed(data):
                    loop.call_soon_threadsafe(receive, body)
        except FrameError as error:
            log.error("the client's messages cannot be read: %s; the server ends", error)
        except Exception as error:  # or the loop has closed meanwhile
            log.info("reading ended: %s", type(error).__name__)
        finally:  # a server without input must not live on
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(on_end)

    threading.Thread(target=read, name="stdin", daemon=True).start()
