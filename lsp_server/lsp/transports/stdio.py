"""Standard input and output: one client, which started this process.

A thread of its own reads the input, so that nothing the server does can keep `$/cancelRequest` from being read.
"""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from io import BufferedIOBase
from typing import BinaryIO, TypeVar

from lsp_server.lsp.transports import Conversation, Writer
from lsp_server.lsp.transports.framing import FrameError, Frames, framed

log = logging.getLogger(__name__)
_CHUNK_BYTES = 256 * 1024
T = TypeVar("T", bound=Conversation)


def start(start_conversation: Callable[[Writer], T]) -> T:
    """Start the conversation with the one client; its `ended` is also set when the client is gone."""

    def on_end() -> None:
        conversation.ended.set()

    conversation = start_conversation(StdioWriter(take_stdout(), on_end))
    read_in_thread(take_stdin(), conversation.receive, on_end)
    return conversation


class StdioWriter:
    """Writes frames to a stream. Once the other side is gone, writing does nothing."""

    def __init__(self, stream: BinaryIO, on_lost: Callable[[], None]) -> None:
        self._stream = stream
        self._on_lost = on_lost

    def write(self, body: bytes) -> None:
        """Send one message at once."""
        try:
            self._stream.write(framed(body))
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: the stream is closed
            self._on_lost()

    def close(self) -> None:
        """Nothing to do: the stream is the process's own."""


def take_stdin() -> BufferedIOBase:
    """Standard input for us alone.

    A stream of its own: at exit the interpreter closes `sys.stdin`, and aborts while a thread still reads from it.
    """
    return os.fdopen(os.dup(0), "rb")


def take_stdout() -> BinaryIO:
    """Standard output for us alone: from here on whatever else writes to it, as a library may, goes to stderr."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "wb")
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
        except FrameError as error:
            log.error("%s: the server ends", error)
        except Exception as error:  # also that the loop has closed meanwhile
            log.info("reading ended: %s", type(error).__name__)
        finally:  # a server that hears nothing any more must not live on
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(on_end)

    threading.Thread(target=read, name="stdin", daemon=True).start()
