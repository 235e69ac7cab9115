"""The SQLite file: its tables, sharing among processes, and what happens to an unusable file. Knows no threads."""

import sqlite3
import time
from collections.abc import Iterable
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from lsp_server.usage.events import Event
from lsp_server.usage.place import STATE_VARIABLE, make_file, make_folder
from lsp_server.usage.set_aside import APPLICATION_ID, FIRST_TABLES, NOT_PLAIN, is_plain, move_aside, read_only
from lsp_server.usage.statements import Statement, statements_of
from lsp_server.worker.paths import why_not_private

VERSION = 2
KEPT_DAYS = 365
_PATIENCE_S = 5.0
"""How long to wait while another process writes."""
_PASSING = {
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN),
    *(sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH, sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_NOLFS),
}
"""Errors that do not implicate the file itself. `make_file` has checked that it is writable."""
_SCHEMA = """
CREATE TABLE suggestion (
    key INTEGER PRIMARY KEY,            -- random, so that several processes can write
    at_s REAL NOT NULL,                 -- when it was first shown, Unix time
    language TEXT NOT NULL,
    kind TEXT NOT NULL,                 -- of the hole
    trigger TEXT NOT NULL,              -- typing, asked or action
    confidence REAL,                    -- 0 to 1
    characters INTEGER NOT NULL,        -- what it would add
    outcome TEXT,                       -- whole, part or rejected; NULL: neither taken nor rejected
    taken_characters INTEGER NOT NULL DEFAULT 0,
    similarity_at_save REAL,            -- what stood there to what was taken, 0 to 1
    similarity_later REAL
);
CREATE INDEX suggestion_at ON suggestion (at_s);
CREATE TABLE answer (
    suggestion INTEGER NOT NULL REFERENCES suggestion ON DELETE CASCADE,
    remembered INTEGER NOT NULL,        -- 1: answered without a computation
    first_draft_ms REAL,                -- since the request arrived
    whole_ms REAL NOT NULL
);
CREATE INDEX answer_of ON answer (suggestion);
CREATE TABLE lost (at_s REAL NOT NULL, events INTEGER NOT NULL);
"""
_PAIRS_SCHEMA = """
CREATE TABLE pair (
    key INTEGER PRIMARY KEY,            -- random
    at_s REAL NOT NULL,                 -- when the main model had answered, Unix time
    document INTEGER NOT NULL,          -- random, another one each time a document is opened
    language TEXT NOT NULL,
    trigger TEXT NOT NULL,              -- typing, asked or action
    outcome TEXT NOT NULL,              -- of the other model: answered, late, nothing, failed or stopped
    error TEXT NOT NULL,                -- the failure's code, or empty
    main_model TEXT NOT NULL,
    main_whole_ms REAL,                 -- from being asked to the whole answer
    other_model TEXT NOT NULL,
    other_whole_ms REAL
);
CREATE INDEX pair_at ON pair (at_s);
CREATE TABLE pair_hole (
    key INTEGER PRIMARY KEY,            -- random
    pair INTEGER NOT NULL REFERENCES pair ON DELETE CASCADE,
    number INTEGER NOT NULL,            -- of the hole in its request, from 0
    suggestion INTEGER NOT NULL,        -- what the main model wrote there
    kind TEXT NOT NULL,                 -- of the hole
    main_characters INTEGER NOT NULL,
    other_characters INTEGER,           -- NULL: it wrote nothing of use
    main_at_save REAL,                  -- similarity to what stood there at the next save
    other_at_save REAL,
    main_at_later REAL,
    other_at_later REAL
);
CREATE INDEX pair_hole_of ON pair_hole (pair);
CREATE TABLE forgotten (at_s REAL NOT NULL);  -- no pair of before may be written
"""
_UPGRADES = (_SCHEMA, _PAIRS_SCHEMA)
"""What each version adds to the previous one."""
_TABLES = (FIRST_TABLES, FIRST_TABLES | {"pair", "pair_hole", "forgotten"})
"""The tables that a file of each version has at least."""


class UsageFileError(Exception):
    """The file is unusable. str() says why, and what to do."""


class NewerFileError(UsageFileError):
    """A newer infill-ls wrote the file."""


def open_store(file: Path) -> tuple[sqlite3.Connection, str]:
    """A connection to `file`, created if missing, and a message about any file moved aside. Raises UsageFileError."""
    try:
        make_folder(file)
        _require_plain_parts(file)
        with FileLock(_lock(file), timeout=_PATIENCE_S, mode=0o600):
            return _opened(file)
    except Timeout:
        raise UsageFileError(f"another process holds {_lock(file)}") from None
    except (OSError, sqlite3.Error) as error:
        raise UsageFileError(_in_words(file, error)) from error


def write(connection: sqlite3.Connection, events: Iterable[Event]) -> None:
    """Writes all of `events`, or none of them. Raises sqlite3.Error."""
    statements = [each for event in events for each in statements_of(event)]  # not under the lock: compares texts
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for statement in statements:
            connection.execute(*statement)


def forget(connection: sqlite3.Connection) -> int:
    """Deletes and overwrites all records. Returns the number of suggestions. Raises UsageFileError if some may stay."""
    return _delete(connection, ("DELETE FROM suggestion", ()), ("DELETE FROM pair", ()), ("DELETE FROM lost", ()))


def forget_pairs(connection: sqlite3.Connection) -> int:
    """Like `forget`, of all comparisons of two models, even unwritten ones. Returns the number of requests."""
    mark = "INSERT INTO forgotten VALUES (?)", (time.time(),)
    return _delete(connection, ("DELETE FROM pair", ()), ("DELETE FROM forgotten", ()), mark)


def _delete(connection: sqlite3.Connection, *statements: Statement) -> int:
    """Carries out the statements, and erases every byte of what they delete, in the file and in its log. Returns the
    number of rows of the first. Raises UsageFileError if some bytes may remain.
    """
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        count, *_ = [connection.execute(*statement).rowcount for statement in statements]
    connection.execute("VACUUM")
    is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        (file,) = connection.execute("SELECT file FROM pragma_database_list WHERE name = 'main'").fetchone()
        raise UsageFileError(
            f"it is deleted, but another program reads {file} just now, and its bytes may still be in {file}-wal; "
            "close that program, and run this again"
        )
    return count


def give_up_newer(file: Path) -> None:
    """Moves the file of a newer version aside, for `forget_set_aside`. Raises OSError."""
    with FileLock(_lock(file), timeout=_PATIENCE_S, mode=0o600):
        move_aside(file)


def is_damaged(error: Exception) -> bool:
    """Whether an SQLite error means that the file is damaged, or no database."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_BUSY)
    return isinstance(error, sqlite3.DatabaseError) and code & 0xFF not in _PASSING


def trouble_with(file: Path) -> str:
    """Why `file` will be set aside when it is next opened, or nothing. Changes nothing. Raises UsageFileError."""
    if trouble := why_not_private(file.parent, STATE_VARIABLE):
        raise UsageFileError(trouble)
    try:
        _require_plain_parts(file)
        if not is_plain(file):
            return NOT_PLAIN
        write_format = file.read_bytes()[18:19] if file.exists() else b""
        is_writable = write_format <= b"\2"  # SQLite writes to no others
    except OSError as error:
        raise UsageFileError(_in_words(file, error)) from error
    with suppress(sqlite3.OperationalError), closing(read_only(file)) as connection:
        try:
            trouble = _unusable(connection, file)[0]
            return trouble or ("" if is_writable else "it is damaged (SQLite would only read it)")
        except sqlite3.DatabaseError as error:
            return f"it is damaged ({error})" if is_damaged(error) else ""
    return ""


def _lock(file: Path) -> Path:
    return file.with_suffix(".lock")


def _require_plain_parts(file: Path) -> None:
    """Raises UsageFileError if something else is in the place of the lock or of SQLite's own files."""
    for part in (_lock(file), *(file.with_name(file.name + suffix) for suffix in ("-wal", "-shm", "-journal"))):
        if not is_plain(part):
            raise UsageFileError(f"{part}: {NOT_PLAIN}; remove it")


def _opened(file: Path) -> tuple[sqlite3.Connection, str]:
    """The caller holds the lock, so that no two processes create tables or move the file aside together."""
    trouble = NOT_PLAIN if not is_plain(file) else ""
    if not trouble:
        make_file(file)
        with ExitStack() as unless_usable:
            connection = sqlite3.connect(file, timeout=_PATIENCE_S, isolation_level=None)
            unless_usable.callback(connection.close)
            try:
                trouble = _prepared(connection, file)
            except sqlite3.DatabaseError as error:
                if not is_damaged(error):
                    raise
                trouble = f"it is damaged ({error})"
            if not trouble:
                unless_usable.pop_all()
                return connection, ""
    moved = move_aside(file)
    connection, _ = _opened(file)
    return connection, f"{file} could not be used: {trouble}; it is now {moved.name}, and a new one was begun"


def _unusable(connection: sqlite3.Connection, file: Path) -> tuple[str, int]:
    """The problem with the file, or nothing, and the version of its contents. Raises sqlite3.Error."""
    names = ("application_id", "user_version")
    (application,), (version,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in names)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if application == APPLICATION_ID and VERSION < version <= 1000:  # or its bytes are damaged
        raise NewerFileError(f"{file} was written by a newer infill-ls; use that one, or set {STATE_VARIABLE}")
    if tables and (application != APPLICATION_ID or not 1 <= version <= VERSION or not tables >= _TABLES[version - 1]):
        return "it is a database of another program", 0
    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    return (f"it is damaged ({found})" if found != "ok" else ""), (version if tables else 0)


def _prepared(connection: sqlite3.Connection, file: Path) -> str:
    """Creates the tables in an empty file. Returns the problem with the file, or nothing. Raises sqlite3.Error."""
    trouble, held = _unusable(connection, file)
    if trouble:
        return trouble
    for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON", "secure_delete = ON"):
        connection.execute(f"PRAGMA {pragma}")
    if held < VERSION:
        marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
        connection.executescript(f"BEGIN IMMEDIATE; {''.join(_UPGRADES[held:])} {marks} COMMIT;")
    oldest_s = time.time() - KEPT_DAYS * 86_400
    for table in ("suggestion", "pair", "lost"):
        connection.execute(f"DELETE FROM {table} WHERE at_s < ?", (oldest_s,))  # noqa: S608 - these three names
    return ""


def _in_words(file: Path, error: Exception) -> str:
    why = getattr(error, "strerror", None) or str(error)
    return f"{file}: {why}; make sure that you can write there and that no other program holds it, and try again"
