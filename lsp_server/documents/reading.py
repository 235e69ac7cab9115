"""Reads a text file that may turn out to be anything (a pipe, a link, a device, gigabytes), and replaces its text."""

import os
import shutil
import stat
import sys
from pathlib import Path
from tempfile import mkstemp

from lsp_server.documents.positions import Encoding, LineIndex

MAX_FILE_BYTES = 16 * 1024 * 1024
_NONBLOCKING: int = getattr(os, "O_NONBLOCK", 0)
"""Otherwise opening a pipe waits for a writer."""
_MAX_DIGITS = 9


class UnreadableError(Exception):
    """A file is unusable. str() says why, without its path; `missing`: it simply does not exist."""

    def __init__(self, reason: str, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.missing = missing


class BadInputError(Exception):
    """The user's command line input is unusable. str() is one line and says what to do."""


def read_text(path: Path, max_bytes: int) -> str:
    """The text of a regular UTF-8 file of at most `max_bytes`, with unchanged line ends. Raises UnreadableError."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NONBLOCKING)) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise UnreadableError("not a regular file")
            content = stream.read(max_bytes + 1)
    except FileNotFoundError:
        raise UnreadableError("no such file", missing=True) from None
    except (OSError, ValueError) as error:
        raise UnreadableError(getattr(error, "strerror", None) or "not a valid path") from None
    return _decoded(content, max_bytes)


def _decoded(content: bytes, max_bytes: int) -> str:
    if len(content) > max_bytes:
        raise UnreadableError(f"larger than {max_bytes} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"not UTF-8 (byte {error.start})") from None


def read_named_file(file: Path, real: Path | None = None) -> str:
    """The text of a file named on the command line, read at `real` if given. Raises BadInputError."""
    try:
        return read_text(real or file, MAX_FILE_BYTES)
    except UnreadableError as error:
        advice = "" if error.missing else "; give a text file in UTF-8"
        raise BadInputError(f"{file}: {error}{advice}") from None


def read_standard_input() -> str:
    """The text of standard input, with unchanged line ends. Raises BadInputError."""
    if sys.stdin is None:
        raise BadInputError("standard input is closed; give a text in UTF-8")
    try:
        return _decoded(sys.stdin.buffer.read(MAX_FILE_BYTES + 1), MAX_FILE_BYTES)
    except (UnreadableError, OSError) as error:
        raise BadInputError(f"standard input: {error}; give a text in UTF-8") from None


def offset_at_line_col(lines: LineIndex, line_col: str, file: Path) -> int:
    """The `str` index of `LINE:COL`, both counted from 1, in characters. Raises BadInputError if there is none."""
    parts = line_col.split(":")
    if len(parts) != 2 or not all(part.isdecimal() and len(part) <= _MAX_DIGITS and int(part) for part in parts):
        raise BadInputError(f"--at {line_col[:40]} is not LINE:COL; give both counted from 1, as in --at 12:5")
    line, column = map(int, parts)
    if line > lines.line_count:
        raise BadInputError(f"{file}: --at {line_col} is outside the file; its last line is {lines.line_count}")
    last = lines.line_end(line - 1) - lines.line_start(line - 1) + 1
    if column > last:
        raise BadInputError(f"{file}: --at {line_col} is outside the file; the last column of line {line} is {last}")
    return lines.offset(line - 1, column - 1, Encoding.UTF32)


NEW_FILE_PREFIX = ".infill-ls-new-"


def overwrite_file(file: Path, target: Path, expected: str, text: str) -> None:
    """Writes `text` over `target`, the real path of `file`: all of it or nothing, since a new file takes its place.
    Raises BadInputError if that holds other text than `expected`, or cannot be replaced without a loss.
    """
    try:
        old_stat = target.stat()
        if read_named_file(file, target) != expected:
            raise BadInputError(f"{file} was changed by someone else meanwhile; run the command again")
        if not os.access(target, os.W_OK):
            raise BadInputError(f"{file} is read-only; it was left as it was")
        if old_stat.st_nlink > 1:
            raise BadInputError(f"{file} has several names (hard links); it was left as it was, copy it and try again")
        _replace(file, target, old_stat, text)
    except OSError as error:
        raise BadInputError(f"{file} cannot be written: {error.strerror}; it was left as it was") from None


def _replace(file: Path, target: Path, old_stat: os.stat_result, text: str) -> None:
    """Raises OSError or BadInputError; then the old file is untouched."""
    descriptor, name = mkstemp(prefix=NEW_FILE_PREFIX, dir=target.parent)
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fsync(descriptor)
        if (new.stat().st_uid, new.stat().st_gid) != (old_stat.st_uid, old_stat.st_gid):
            shutil.chown(new, old_stat.st_uid, old_stat.st_gid)
        shutil.copystat(target, new)  # also extended attributes, where the system has them
        os.utime(new)
        now = target.stat()
        if (now.st_ino, now.st_size, now.st_mtime_ns) != (old_stat.st_ino, old_stat.st_size, old_stat.st_mtime_ns):
            raise BadInputError(f"{file} was changed by someone else meanwhile; run the command again")
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
