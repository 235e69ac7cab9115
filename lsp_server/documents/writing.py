"""Replaces the text of the user's file atomically: the whole of it, or nothing.

If everything belonging to the file can be transferred, a new file, nameless until complete, replaces it in one rename.

Otherwise (hard links, foreign owners or attributes) the file is written in place, while a copy of the old content is
kept beside it, or in the folder for temporary files.
"""

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE
from tempfile import mkstemp
from uuid import uuid4

from lsp_server.documents.reading import BadInput, read_named_file

COPY_PREFIX = ".infill-ls-original-"
_NEW_PREFIX = ".infill-ls-new-"
_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_BINARY = _CLOEXEC | getattr(os, "O_BINARY", 0)
_CANNOT_RESERVE = (errno.EBADF, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""The file system cannot; EBADF is the failure of the C library's own method, which reads from the descriptor."""
_ANONYMOUS = getattr(os, "O_TMPFILE", 0)


class _NotAlike(Exception):
    """No new file can replace the old one without a loss."""


class _HalfWritten(BadInput):
    """The file has neither its old nor its new content; str() names the copy."""


def replace_text(file: Path, target: Path, expected: str, text: str) -> None:
    """Writes `text` over `target`, the real path of `file`, with signals waiting. Raises BadInput if that holds other
    text than `expected`, or cannot be written.
    """
    with _signals_waiting():
        try:
            before = target.stat()
            if read_named_file(file, target) != expected:
                raise BadInput(f"{file} was changed by someone else meanwhile; run the command again")
            if not os.access(target, os.W_OK):
                raise BadInput(f"{file} is read-only; it was left as it was")
            try:
                _rename_over(file, target, before, text.encode())
            except (_NotAlike, OSError):
                _write_in_place(file, target, before, expected.encode(), text.encode())
        except OSError as error:
            raise BadInput(f"{file} cannot be written: {error.strerror}; it was left as it was") from None


def _rename_over(file: Path, target: Path, before: os.stat_result, content: bytes) -> None:
    """Replaces the old file by a new one. Raises _NotAlike or OSError; then the old one is untouched."""
    if before.st_nlink > 1 or not _ANONYMOUS:
        raise _NotAlike
    with _opened(target.parent, os.O_RDONLY) as folder, _opened(target.parent, os.O_RDWR | _ANONYMOUS) as new:
        _write_all(new, content)
        _make_alike(new, target, before)
        os.fsync(new)
        _require_unchanged(file, target, before)
        name = f"{_NEW_PREFIX}{uuid4().hex}"
        os.link(f"/proc/self/fd/{new}", name, src_dir_fd=folder, dst_dir_fd=folder)
        try:
            os.replace(name, target.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.unlink(name, dir_fd=folder)
            raise
        with suppress(OSError):  # done; surviving a power cut is up to the file system
            os.fsync(folder)


def _make_alike(new: int, target: Path, before: os.stat_result) -> None:
    """Gives the new file the owner, permissions and attributes of the old one. Raises _NotAlike, OSError."""
    os.fchown(new, before.st_uid, before.st_gid)
    os.fchmod(new, S_IMODE(before.st_mode))
    wanted, given = _attributes(target), _attributes(new)
    for name, value in wanted.items():
        if given.get(name) != value:
            os.setxattr(new, name, value)
    now = os.fstat(new)
    if (now.st_uid, now.st_gid, now.st_mode) != (before.st_uid, before.st_gid, before.st_mode):
        raise _NotAlike
    if _attributes(new) != wanted:
        raise _NotAlike


def _attributes(file: Path | int) -> dict[str, bytes]:
    """The extended attributes of a file, including its access control list."""
    return {name: os.getxattr(file, name) for name in os.listxattr(file)}


def _write_in_place(file: Path, target: Path, before: os.stat_result, old: bytes, new: bytes) -> None:
    """Overwrites the file. Raises OSError if it is unchanged, BadInput if it is not."""
    with _opened(target, os.O_WRONLY) as descriptor, _copy(target.parent, old) as copy:
        _require_unchanged(file, target, before)
        _reserve(descriptor, len(old), len(new))
        try:
            _overwrite(descriptor, new)
        except OSError:
            try:
                _overwrite(descriptor, old)
            except OSError:
                raise _HalfWritten(f"{file} is only half written; {copy} holds what it was: put that back") from None
            raise


@contextmanager
def _copy(folder: Path, content: bytes) -> Iterator[str]:
    """A file with `content`, removed afterwards unless _HalfWritten names it. Raises OSError."""
    try:
        descriptor, copy = mkstemp(prefix=COPY_PREFIX, dir=folder)
    except OSError:  # the folder is not ours
        descriptor, copy = mkstemp(prefix=COPY_PREFIX)
    is_needed = False
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(descriptor)
        yield copy
    except _HalfWritten:
        is_needed = True
        raise
    finally:
        if not is_needed:
            Path(copy).unlink()


def _require_unchanged(file: Path, target: Path, before: os.stat_result) -> None:
    """Raises BadInput if the file was saved since `before`: writing the new one to disk takes a while."""
    now = target.stat()
    if (now.st_ino, now.st_size, now.st_mtime_ns) != (before.st_ino, before.st_size, before.st_mtime_ns):
        raise BadInput(f"{file} was changed by someone else meanwhile; run the command again")


def _reserve(descriptor: int, old_size: int, size: int) -> None:
    """Detects a full disk before changing a byte. Raises OSError; then the file is unchanged."""
    if not hasattr(os, "posix_fallocate") or not size:
        return
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        os.ftruncate(descriptor, old_size)
        if error.errno not in _CANNOT_RESERVE:
            raise


def _overwrite(descriptor: int, content: bytes) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    _write_all(descriptor, content)
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | _BINARY, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _signals_waiting() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    waited_for = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, waited_for)
