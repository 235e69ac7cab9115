"""Standard input and output: one client, which started this process.

A thread of its own reads the input, so that nothing the server does can keep `$/cancelRequest` from being read; another
one writes the output, so that a client that does not read keeps nothing from being done.
"""

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

from lsp_server.lsp.transports import FLUSH_S, MAX_UNREAD_BYTES, Conversation, Writer
from lsp_server.lsp.transports.framing import Frames, framed

log = logging.getLogger(__name__)
_CHUNK_BYTES = 256 * 1024
_RETRY_S = 0.01
T = TypeVar("T", bound=Conversation)


def start(start_conversation: Callable[[Writer], T]) -> tuple[T, "StdioWriter"]:
    """Start the conversation with the one client; its `ended` is also set when the client is gone."""
    loop = asyncio.get_running_loop()

    def on_lost() -> None:
        with suppress(RuntimeError):  # the loop has closed meanwhile
            loop.call_soon_threadsafe(conversation.ended.set)

    output = StdioWriter(take_stdout(), on_lost)
    conversation = start_conversation(output)
    read_in_thread(take_stdin(), conversation.receive, conversation.ended.set)
    return conversation, output


class StdioWriter:
    """Writes frames to a stream, in a thread of its own: a client may leave them unread for as long as it likes.

    Once the client is gone, writing does nothing, and `on_lost` has been called, in whichever thread found it out.
    """

    def __init__(self, stream: RawIOBase, on_lost: Callable[[], None]) -> None:
        self._stream = stream
        self._on_lost = on_lost
        self._frames: SimpleQueue[bytes | None] = SimpleQueue()
        self._written_bytes = self._sent_bytes = 0
        self._gone = False
        self._thread = threading.Thread(target=self._send, name="stdout", daemon=True)
        self._thread.start()

    def write(self, body: bytes) -> None:
        """Send one message; a client that has let too much pile up counts as gone."""
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
        """Send what has been written and no more. The stream is the process's own and stays open."""
        self._frames.put(None)

    async def flushed(self) -> None:
        """Wait until all has gone out, but not for long; the writer must have been closed."""
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
        if written is None:  # another process that shares the stream has made it non-blocking
            time.sleep(_RETRY_S)
        rest = rest[written or 0 :]


def take_stdin() -> BufferedIOBase:
    """Standard input for us alone.

    A stream of its own: at exit the interpreter closes `sys.stdin`, and aborts while a thread still reads from it.
    """
    return os.fdopen(os.dup(0), "rb")


def take_stdout() -> RawIOBase:
    """Standard output for us alone: from here on whatever else writes to it, as a library may, goes to stderr.

    Without a buffer, whose lock the interpreter could wait for at exit.
    """
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    if os.name == "nt":
        import msvcrt

        msvcrt.setmode(ours.fileno(), os.O_BINARY)  # type: ignore[attr-defined,unused-ignore]
    return ours


def read_in_thread(stream: BufferedIOBase, receive: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
    """Pass each frame's body to `receive` on the running event loop; call `on_end` when there are no more, why ever."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        frames = Frames()
        try:
            while data := stream.read1(_CHUNK_BYTES):
                for body in frames.feed(data):
                    loop.call_soon_threadsafe(receive, body)
        except Exception as error:  # also that the loop has closed meanwhile
            log.info("reading ended: %s", type(error).__name__)
        finally:  # a server that hears nothing any more must not live on
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(on_end)

    threading.Thread(target=read, name="stdin", daemon=True).start()
