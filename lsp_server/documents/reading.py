"""Reads a text file that may turn out to be anything: a pipe, a link, a device, gigabytes. Never blocks."""

import os
import stat
import sys
from pathlib import Path

from lsp_server.documents.positions import Encoding, LineIndex

MAX_FILE_BYTES = 16 * 1024 * 1024
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_MAX_DIGITS = 9


class Unreadable(Exception):
    """A file is unusable. str() says why, without its path; `missing`: it simply does not exist."""

    def __init__(self, reason: str, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.missing = missing


class BadInput(Exception):
    """The user's command line input is unusable. str() is one line and says what to do."""


def read_text(path: Path, max_bytes: int) -> str:
    """The text of a regular UTF-8 file of at most `max_bytes`, with unchanged line ends. Raises Unreadable."""
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        raise Unreadable("no such file", missing=True) from None
    except (OSError, ValueError) as error:
        raise Unreadable(getattr(error, "strerror", None) or "not a valid path") from None
    return _decoded(_content(descriptor, max_bytes), max_bytes)


def _decoded(content: bytes, max_bytes: int) -> str:
    if len(content) > max_bytes:
        raise Unreadable(f"larger than {max_bytes} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 (byte {error.start})") from None


def read_named_file(file: Path, real: Path | None = None) -> str:
    """The text of a file named on the command line, read at `real` if given. Raises BadInput."""
    try:
        return read_text(real or file, MAX_FILE_BYTES)
    except Unreadable as error:
        advice = "" if error.missing else "; give a text file in UTF-8"
        raise BadInput(f"{file}: {error}{advice}") from None


def read_standard_input() -> str:
    """The text of standard input, with unchanged line ends. Raises BadInput."""
    if sys.stdin is None:
        raise BadInput("standard input is closed; give a text in UTF-8")
    try:
        return _decoded(sys.stdin.buffer.read(MAX_FILE_BYTES + 1), MAX_FILE_BYTES)
    except (Unreadable, OSError) as error:
        raise BadInput(f"standard input: {error}; give a text in UTF-8") from None


def offset_at_line_col(lines: LineIndex, place: str, file: Path) -> int:
    """The `str` index of `LINE:COL`, both counted from 1, in characters. Raises BadInput if there is none."""
    line, column = _line_and_column(place)
    if line > lines.line_count:
        raise BadInput(f"{file}: --at {place} is outside the file; its last line is {lines.line_count}")
    last = lines.line_end(line - 1) - lines.line_start(line - 1) + 1
    if column > last:
        raise BadInput(f"{file}: --at {place} is outside the file; the last column of line {line} is {last}")
    return lines.offset(line - 1, column - 1, Encoding.UTF32)


def _content(descriptor: int, max_bytes: int) -> bytes:
    """Up to one byte more than `max_bytes` of an open file, which is then closed. Raises Unreadable."""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unreadable("not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(max_bytes + 1)
    except OSError as error:
        raise Unreadable(error.strerror or "it cannot be read") from None
    finally:
        os.close(descriptor)


def _line_and_column(place: str) -> tuple[int, int]:
    line, _, column = place.partition(":")
    if not all(part.isdecimal() and len(part) <= _MAX_DIGITS and int(part) for part in (line, column)):
        raise BadInput(f"--at {place[:40]} is not LINE:COL; give both counted from 1, as in --at 12:5")
    return int(line), int(column)
