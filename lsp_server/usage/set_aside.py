"""Unusable statistics files that were moved aside, and which of them are deleted when the user forgets all."""

import re
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from stat import S_ISREG

APPLICATION_ID = 0x494E464C
"""`INFL`: identifies a file as ours."""
FIRST_TABLES = {"suggestion", "answer", "lost"}
"""The tables that each of our files has at least."""
NOT_PLAIN = "it is not a regular file (but a link, or no file at all)"


_SET_ASIDE = re.compile(r"\.set-aside-\d+(?:-wal|-shm)?")


def set_aside(file: Path) -> list[Path]:
    """The files beside `file` that were moved aside at some time."""
    found = file.parent.glob(f"{file.name}.set-aside-*")
    return sorted(part for part in found if _SET_ASIDE.fullmatch(part.name.removeprefix(file.name)))


def forget_set_aside(file: Path) -> list[Path]:
    """Deletes the files moved aside that were ours, and returns the remaining ones. Raises OSError."""
    left = [part for part in set_aside(file) if not is_plain(part) or _is_of_others(part)]
    for part in set_aside(file):
        if part not in left:
            part.unlink()
    return left


def move_aside(file: Path) -> Path:
    """Renames `file` and SQLite's files beside it. Returns the new path. Raises OSError."""
    number, moved = 1, file.with_name(f"{file.name}.set-aside-1")
    while moved.exists() or moved.is_symlink():
        number, moved = number + 1, file.with_name(f"{file.name}.set-aside-{number + 1}")
    for suffix in ("-wal", "-shm", ""):
        part = file.with_name(file.name + suffix)
        if part.exists() or part.is_symlink():
            part.rename(moved.with_name(moved.name + suffix))
    return moved


def is_plain(file: Path) -> bool:
    """Whether this is a regular file, or nothing; in one look, as other processes make and remove SQLite's files."""
    try:
        return S_ISREG(file.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True


def read_only(file: Path) -> sqlite3.Connection:
    """A connection that writes nothing, not even beside `file`. Raises sqlite3.Error."""
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def _is_of_others(file: Path) -> bool:
    """Whether this is an intact database that we did not make."""
    with suppress(sqlite3.Error), closing(read_only(file)) as connection:
        ((application,),) = connection.execute("PRAGMA application_id")
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        return bool(tables) and application != APPLICATION_ID and not tables >= FIRST_TABLES
    return False
