"""Replaces the text of the user's file: the whole of it, or nothing. A new file beside it takes its place."""

import os
import shutil
from pathlib import Path
from tempfile import mkstemp

from lsp_server.documents.reading import BadInput, read_named_file

NEW_PREFIX = ".infill-ls-new-"


def replace_text(file: Path, target: Path, expected: str, text: str) -> None:
    """Writes `text` over `target`, the real path of `file`. Raises BadInput if that holds other text than `expected`,
    or cannot be replaced without a loss.
    """
    try:
        before = target.stat()
        if read_named_file(file, target) != expected:
            raise BadInput(f"{file} was changed by someone else meanwhile; run the command again")
        if not os.access(target, os.W_OK):
            raise BadInput(f"{file} is read-only; it was left as it was")
        if before.st_nlink > 1:
            raise BadInput(f"{file} has several names (hard links); it was left as it was, copy it and try again")
        _replace(file, target, before, text)
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}; it was left as it was") from None


def _replace(file: Path, target: Path, before: os.stat_result, text: str) -> None:
    """Raises OSError or BadInput; then the old file is untouched."""
    descriptor, name = mkstemp(prefix=NEW_PREFIX, dir=target.parent)
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fsync(descriptor)
        if (new.stat().st_uid, new.stat().st_gid) != (before.st_uid, before.st_gid):
            shutil.chown(new, before.st_uid, before.st_gid)
        shutil.copystat(target, new)  # also extended attributes, where the system has them
        os.utime(new)
        now = target.stat()
        if (now.st_ino, now.st_size, now.st_mtime_ns) != (before.st_ino, before.st_size, before.st_mtime_ns):
            raise BadInput(f"{file} was changed by someone else meanwhile; run the command again")
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
