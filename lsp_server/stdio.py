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
from contextlib import suppress
from typing import BinaryIO

log = logging.getLogger(__name__)
MAX_BODY_BYTES = 64 * 1024 * 1024
"""A longer message is no editor's: it would only fill the memory."""
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
    """Pass each frame's body to `receive` on the running event loop; `on_end` once there are no more, why ever."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            for body in frames(stream):
                loop.call_soon_threadsafe(receive, body)
        except Exception as error:  # also that the loop has closed meanwhile
            log.info("reading ended: %s", type(error).__name__)
        finally:  # a server that hears nothing any more must not live on
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(on_end)

    threading.Thread(target=read, name="stdin", daemon=True).start()


def frames(stream: BinaryIO) -> Iterator[bytes]:
    """The body of each frame until the stream ends or one is too long; headers without a length are skipped."""
    length = None
    while line := stream.readline():
        if match := _LENGTH.fullmatch(line):
            length = _length(match[1])
            if length > MAX_BODY_BYTES:
                log.error("a message is longer than %d bytes: the server ends", MAX_BODY_BYTES)
                return
        elif length is not None and not line.strip():
            body = stream.read(length)
            if len(body) < length:
                return
            yield body
            length = None


def _length(digits: bytes) -> int:
    """A length from its header; of many digits it is only known to be too long, as int() refuses thousands of them."""
    significant = digits.lstrip(b"0") or b"0"
    return int(significant) if len(significant) < 20 else MAX_BODY_BYTES + 1
