"""The SQLite file of counters and of shadow mode's comparisons, in a private folder. Several processes may write."""

import os
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from inference.remote.private import why_not_private
from lsp_server.usage.records import STATE_VARIABLE, Key, Pair

KEPT_DAYS = 365
FORGET = "`infill-ls stats forget` deletes it"
_PATIENCE_S = 5.0
"""How long to wait while another process writes."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS counter (
    day TEXT NOT NULL, language TEXT NOT NULL, trigger TEXT NOT NULL, event TEXT NOT NULL, count REAL NOT NULL,
    PRIMARY KEY (day, language, trigger, event)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pair (
    day TEXT NOT NULL, language TEXT NOT NULL, main_model TEXT NOT NULL, other_model TEXT NOT NULL,
    outcome TEXT NOT NULL, main_ms REAL NOT NULL, other_ms REAL, main_similarity REAL, other_similarity REAL
);
"""


def write(file: Path, counts: Mapping[Key, float], pairs: Sequence[Pair]) -> None:
    """Adds to the counters, and keeps the pairs. All or nothing. Raises OSError or sqlite3.Error, which say why."""
    _make(file)
    with _opened(file) as connection, connection:
        connection.executescript(_SCHEMA)
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO counter VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            [(*key, count) for key, count in counts.items()],
        )
        connection.executemany("INSERT INTO pair VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", pairs)
        for table in ("counter", "pair"):
            oldest = f"date('now', '-{KEPT_DAYS} days')"
            connection.execute(f"DELETE FROM {table} WHERE day < {oldest}")  # noqa: S608 - two names of our own


def problem_of_writing(file: Path, counts: Mapping[Key, float], pairs: Sequence[Pair]) -> str:
    """Does the same; returns why it failed, or nothing."""
    try:
        write(file, counts, pairs)
    except (OSError, sqlite3.Error) as error:
        return in_words(file, error)
    return ""


def read(file: Path, days: int) -> tuple[dict[Key, float], list[Pair]]:
    """The counters and pairs of the last days. Raises OSError or sqlite3.Error."""
    if not file.exists():
        return {}, []
    since = (f"-{days} days",)
    with _opened(file) as connection:
        connection.executescript(_SCHEMA)
        counts = connection.execute("SELECT * FROM counter WHERE day > date('now', 'localtime', ?)", since).fetchall()
        pairs = connection.execute("SELECT * FROM pair WHERE day > date('now', 'localtime', ?)", since).fetchall()
    return {Key(*key): count for *key, count in counts}, [Pair(*row) for row in pairs]


def forget(file: Path) -> list[Path]:
    """Deletes the file, and those of earlier versions in the same folder. Returns what it deleted. Raises OSError."""
    found = [each for name in (file.name, "usage.") for each in sorted(file.parent.glob(f"{name}*"))]
    for each in found:
        each.unlink()
    return found


def in_words(file: Path, error: Exception) -> str:
    """What went wrong with the file, and what to do."""
    return f"{file}: {getattr(error, 'strerror', None) or error}; {FORGET}"


@contextmanager
def _opened(file: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(file, timeout=_PATIENCE_S)) as connection:
        yield connection


def _make(file: Path) -> None:
    """Creates the private folder and file if missing; refuses anything else in their place. Raises OSError."""
    file.parent.parent.mkdir(parents=True, exist_ok=True)
    if trouble := why_not_private(file.parent, STATE_VARIABLE):
        raise OSError(trouble)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(file, flags, 0o600)
    is_plain = stat.S_ISREG(os.fstat(handle).st_mode)
    os.close(handle)
    if not is_plain:
        raise OSError(f"{file} is not a regular file")
