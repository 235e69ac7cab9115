"""Standard input and output: one client, which started this process.

Input is read by a thread of its own, so that nothing the server does can keep `$/cancelRequest` from being read.
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

from lsp_server.lsp.transports import Talk, Writer
from lsp_server.lsp.transports.framing import FrameError, Frames, framed

log = logging.getLogger(__name__)
_CHUNK_BYTES = 256 * 1024
T = TypeVar("T", bound=Talk)


def connect(host: Callable[[Writer], T]) -> T:
    """The conversation with the one client; its `ended` is also set when that is gone."""

    def on_end() -> None:
        talk.ended.set()

    talk = host(Output(take_stdout(), on_end))
    read_in_thread(take_stdin(), talk.receive, on_end)
    return talk


class Output:
    """Where frames go. Once the other side is gone, writing does nothing."""

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
    """Standard output for us alone: from here on whatever else writes to it, any library's print, goes to stderr."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if os.name == "nt":
        import msvcrt

        msvcrt.setmode(ours.fileno(), os.O_BINARY)  # type: ignore[attr-defined,unused-ignore]
    return ours


def read_in_thread(stream: BufferedIOBase, receive: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
    """Pass each frame's body to `receive` on the running event loop; `on_end` once there are no more, why ever."""
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
