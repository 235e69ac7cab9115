"""Reading and replacing the user's file. A file is either replaced whole or left untouched."""

import os
import stat
import tempfile
from pathlib import Path

MAX_FILE_BYTES = 16 * 1024 * 1024


class BadInput(Exception):
    """What the user gave cannot be used. The message is one line and says what to do."""


def read(file: Path) -> str:
    """The file's text, line ends as they are. Raises BadInput where it is no UTF-8 text file we can read."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise BadInput(f"{file} is no regular file; give a file")
        with file.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise BadInput(f"{file} is larger than {MAX_FILE_BYTES >> 20} MiB")
        return content.decode("utf-8")
    except FileNotFoundError:
        raise BadInput(f"{file}: no such file") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} is not UTF-8 (byte {error.start}); convert it first") from None
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None


def replace(file: Path, expected: str, text: str) -> None:
    """Writes `text` over the file in one rename, its permissions kept; a link's target is what is replaced.

    Raises BadInput where the file no longer holds `expected`, or cannot be written; it is then as it was.
    """
    target = file.resolve()
    if read(target) != expected:
        raise BadInput(f"{file} was changed by someone else meanwhile; run the command again")
    if not os.access(target, os.W_OK):
        raise BadInput(f"{file} is read-only; it was left as it was")
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as stream:
            temporary = Path(stream.name)
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}; it was left as it was") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
