"""Reading a file of the user's project, which may be anything: a pipe, a link, a device, gigabytes.

Knows no LSP types. What it opens never blocks: a pipe without a writer, or a device, is closed again unread.
"""

import os
import stat
from pathlib import Path

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class Unreadable(Exception):
    """A file that cannot be used; str() says why, without its path. Whether it is just not there: `missing`."""

    def __init__(self, reason: str, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.missing = missing


def read_text(path: Path, max_bytes: int) -> str:
    """The text of a regular UTF-8 file of at most `max_bytes`. Raises Unreadable."""
    return read_with_time(path, max_bytes)[0]


def read_with_time(path: Path, max_bytes: int) -> tuple[str, int]:
    """The same, and when the file was last changed (`st_mtime_ns`), both of one opened file. Raises Unreadable."""
    try:
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        raise Unreadable("no such file", missing=True) from None
    except (OSError, ValueError) as error:
        raise Unreadable(getattr(error, "strerror", None) or "no valid path") from None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise Unreadable("no regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            content = stream.read(max_bytes + 1)
    except OSError as error:
        raise Unreadable(error.strerror or "it cannot be read") from None
    finally:
        os.close(descriptor)
    if len(content) > max_bytes:
        raise Unreadable(f"larger than {max_bytes} bytes")
    try:
        return content.decode("utf-8"), about.st_mtime_ns
    except UnicodeDecodeError:
        raise Unreadable("not UTF-8") from None
