"""Splits a byte stream into messages, each a `Content-Length` header and a body. No sockets, no files."""

import logging
import re
from collections.abc import Iterator

from lsp_server.lsp.transports import MAX_BODY_BYTES

log = logging.getLogger(__name__)
MAX_HEADER_BYTES = 16 * 1024
_ROOM_BYTES = 8 * 1024
"""Discard a longer line in pieces of this size."""
_LENGTH = re.compile(rb"content-length\s*:\s*(\d+)\s*", re.IGNORECASE)
_LATER_IN_LINE = re.compile(rb"(.*[^\w-])content-length\s*:\s*(\d+)\s*", re.IGNORECASE)
_KNOWN = re.compile(rb"(content-(length|type)\s*:.*)?\s*", re.IGNORECASE)


class FrameError(Exception):
    """A strict stream holds no frame, or an impossibly long one; nothing after it can be trusted."""


def framed(body: bytes) -> bytes:
    """One message as sent over a stream."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class Frames:
    """Splits a stream. Skips to the next header after anything invalid or too long; with `strict`, raises FrameError.

    Be strict on sockets that a browser can reach: the body of an HTTP request must not pass for a message.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._data = bytearray()
        self._announced: int | None = None
        self._in_body = False
        self._is_skipping = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The bodies that `data` completes. Raises FrameError if strict."""
        self._data += data
        while self._in_body or self._read_header():
            length = self._announced or 0
            if len(self._data) < length:
                return
            body = bytes(self._data[:length])
            del self._data[:length]
            self._announced, self._in_body = None, False
            yield body

    def _read_header(self) -> bool:
        """Reads headers up to one with a length; False if it needs more data."""
        while not self._in_body:
            end = self._data.find(b"\n") + 1
            if (excess := (end or len(self._data)) - MAX_HEADER_BYTES) > 0:
                self._skip(excess + _ROOM_BYTES)
                continue
            if not end:
                return False
            line = bytes(self._data[:end])
            del self._data[:end]
            self._read_line(line)
        return True

    def _skip(self, count: int) -> None:
        """Drops the first bytes of an overlong line: it may end with a header."""
        self._complain(f"a header is longer than {MAX_HEADER_BYTES} bytes", again=self._is_skipping)
        self._is_skipping = True
        self._data[:count] = b"-"  # no header begins right after it

    def _complain(self, what: str, *, again: bool = False) -> None:
        if self._strict:
            raise FrameError(what)
        if not again:
            log.warning("%s; it is skipped, up to the next one", what)

    def _read_line(self, line: bytes) -> None:
        self._is_skipping = False
        if self._strict and not _KNOWN.fullmatch(line):
            raise FrameError("not a header of this protocol")
        if match := _LENGTH.fullmatch(line):
            self._announced = self._length(match[1])
        elif match := _LATER_IN_LINE.fullmatch(line):  # after the rest of a body whose length was wrong
            log.warning("the client sent %d bytes that belong to no message; they are skipped", len(match[1]))
            self._announced = self._length(match[2])
        elif self._announced is not None and not line.strip():
            self._in_body = True

    def _length(self, digits: bytes) -> int | None:
        """A length from its header; None if too large, for example thousands of digits, which int() refuses."""
        significant = digits.lstrip(b"0") or b"0"
        if len(significant) > len(str(MAX_BODY_BYTES)) or int(significant) > MAX_BODY_BYTES:
            self._complain(f"a message is longer than {MAX_BODY_BYTES} bytes")
            return None
        return int(significant)
