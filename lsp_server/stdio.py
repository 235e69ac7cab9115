"""The protocol's frames over standard input and output.

Input is read by a thread of its own, so that nothing the server does can keep `$/cancelRequest` from being read. Knows
frames, not what is in them.
"""

import asyncio
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO

log = logging.getLogger(__name__)
_LENGTH = re.compile(rb"content-length\s*:\s*(\d+)\s*", re.IGNORECASE)


class Output:
    """Where frames go. Once the other side is gone, writing does nothing."""

    def __init__(self, stream: BinaryIO, on_lost: Callable[[], None]) -> None:
        self._stream = stream
        self._on_lost = on_lost

    def write(self, data: bytes) -> None:
        """Send whole frames at once."""
        try:
            self._stream.write(data)
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: the stream is closed
            self._on_lost()

    def close(self) -> None:
        """Nothing to do: the stream is the process's own."""


def take_stdin() -> BinaryIO:
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


def read_in_thread(stream: BinaryIO, receive: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
    """Pass each frame's body to `receive` on the running event loop; `on_end` once there are no more."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            for body in frames(stream):
                loop.call_soon_threadsafe(receive, body)
            loop.call_soon_threadsafe(on_end)
        except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: the loop has closed meanwhile
            log.info("reading ended: %s", type(error).__name__)

    threading.Thread(target=read, name="stdin", daemon=True).start()


def frames(stream: BinaryIO) -> Iterator[bytes]:
    """The body of each frame until the stream ends; headers without a length are skipped."""
    length = None
    while line := stream.readline():
        if match := _LENGTH.fullmatch(line):
            length = int(match[1])
        elif length is not None and not line.strip():
            body = stream.read(length)
            if len(body) < length:
                return
            yield body
            length = None
