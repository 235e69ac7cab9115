"""Counts what the user was shown, accepted and rejected, in an SQLite file in a private folder. Several processes may
write. A thread does, so that typing never waits for the disk.
"""

import asyncio
import os
import re
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import platformdirs

from inference.remote.file_privacy import folder_permission_problem
from lsp_server.features import AcceptedEvent, Feature, ShownEvent
from lsp_server.settings.blocking_io import run_in_daemon_thread
from lsp_server.worker.paths import APP_NAME, configured_runtime_folder

if TYPE_CHECKING:
    import sqlite3

    from lsp_server.session import Session

STATE_VARIABLE = "INFILL_LS_STATE_DIR"
KEPT_DAYS = 365
FORGET_HINT = "`infill-ls stats forget` deletes it"
_LOCK_TIMEOUT_S = 5.0
"""How long to wait while another process writes."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS counter (
    day TEXT NOT NULL, language TEXT NOT NULL, trigger TEXT NOT NULL, event TEXT NOT NULL, count REAL NOT NULL,
    PRIMARY KEY (day, language, trigger, event)
) WITHOUT ROWID;
"""


class CounterKey(NamedTuple):
    """The key of a counter: a local day, a language, what triggered the answers, and what happened to them."""

    day: str
    language: str
    trigger: str
    event: str


def usage_file() -> Path:
    """The file, existing or not: in a folder that the environment names, otherwise in the system's folder for state."""
    if chosen := os.environ.get(STATE_VARIABLE):
        folder = Path(chosen).expanduser().absolute()
    else:
        folder = configured_runtime_folder() or platformdirs.user_state_path(APP_NAME, appauthor=False)
    return folder / "usage" / "counters.sqlite"


def today() -> str:
    return datetime.now().astimezone().date().isoformat()


def add_counts(file: Path, counts: Mapping[CounterKey, float]) -> None:
    """Adds to the counters, atomically. Raises OSError or sqlite3.Error, which say why."""
    _create_private_file(file)
    with _connect(file) as connection, connection:
        connection.executescript(_SCHEMA)
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO counter VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            [(*key, count) for key, count in counts.items()],
        )
        connection.execute("DELETE FROM counter WHERE day < date('now', ?)", (f"-{KEPT_DAYS} days",))


def query_rows(file: Path, query: str, days: int) -> list[dict[str, Any]]:
    """The rows of a query of the last days, which its parameter names. Raises OSError or sqlite3.Error."""
    if not file.exists():
        return []
    with _connect(file) as connection:
        connection.executescript(_SCHEMA)
        rows = connection.execute(query, (f"-{min(days, KEPT_DAYS)} days",))  # SQLite knows no date long ago
        names = [name for name, *_ in rows.description]
        return [dict(zip(names, row, strict=True)) for row in rows]


def delete_files(file: Path) -> list[Path]:
    """Deletes the file, and those that SQLite left beside it. Returns what it deleted. Raises OSError."""
    files = sorted(file.parent.glob(f"{file.name}*"))
    for file_to_delete in files:
        file_to_delete.unlink()
    return files


def storage_error_message(file: Path, error: Exception) -> str:
    """Tells the user what went wrong with the file, and what to do."""
    return f"{file}: {getattr(error, 'strerror', None) or error}; {FORGET_HINT}"


def _connect(file: Path) -> "closing[sqlite3.Connection]":
    import sqlite3

    return closing(sqlite3.connect(file, timeout=_LOCK_TIMEOUT_S))


def _create_private_file(file: Path) -> None:
    """Creates the private folder and file if missing; refuses anything else in their place. Raises OSError."""
    file.parent.parent.mkdir(parents=True, exist_ok=True)
    if problem := folder_permission_problem(file.parent, STATE_VARIABLE):
        raise OSError(problem)
    file.parent.mkdir(mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    handle = os.open(file, flags, 0o600)
    is_plain = stat.S_ISREG(os.fstat(handle).st_mode)
    os.close(handle)
    if not is_plain:
        raise OSError(f"{file} is not a regular file")


WRITE_S = 1.0
RETRY_S = 30.0
CLOSE_S = 3.0
"""The end of a session waits this long for a slow disk."""
SHOWN = "shown"
WHOLE = "whole"
PART = "part"
REJECTED = "rejected"
COMPUTED = "computed"
WAITED_MS = "ms"
"""The events that count the computed answers, and the total time that the user waited for them."""
_MAX_TRACKED = 256
"""How many of the latest answers to follow."""
_LANGUAGE = re.compile(r"[A-Za-z0-9+#._-]{1,32}")
"""A valid language id; any other counts as `other`, because a client may send anything."""


class StatisticsWriter(Feature):
    """Used on one event loop. Calls `warn` with the reason if the file cannot be written, and tries again later."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._counts: Counter[CounterKey] = Counter()
        self._writing: asyncio.Task[None] | None = None
        self._has_ended = asyncio.Event()

    def count(self, key: CounterKey, by: int = 1) -> None:
        self._counts[key] += by
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def ended(self) -> None:
        """Writes the rest, but does not wait for a hung disk."""
        self._has_ended.set()
        if self._writing is not None:
            await asyncio.wait({self._writing}, timeout=CLOSE_S)
            self._writing.cancel()

    async def _write(self) -> None:
        """Writes until there is nothing left to write, or the session has ended and the file cannot be written."""
        pause_s = WRITE_S
        while self._counts:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_ended.wait(), pause_s)
            counts, self._counts = self._counts, Counter()
            try:
                await run_in_daemon_thread(partial(add_counts, usage_file(), counts))
            except Exception as error:  # of the disk, of SQLite, or because this Python was built without it
                self._counts.update(counts)
                advice = "all else works; set `statistics` to off to stop this message"
                self._warn(f"the statistics cannot be written: {storage_error_message(usage_file(), error)}; {advice}")
                if self._has_ended.is_set():
                    return
                pause_s = RETRY_S


class StatisticsFeature(Feature):
    """Counts each answer once, however often it is shown, by its last outcome."""

    def __init__(self, session: "Session", writer: StatisticsWriter) -> None:
        self._session = session
        self._writer = writer
        self._answers: dict[str, tuple[str, str]] = {}
        """The trigger and the last outcome, if any, of each answer."""

    def shown(self, uri: str, event: ShownEvent) -> None:
        """Counts automatic suggestions by the setting that decides about them: `typing, balanced`."""
        trigger: str = event.trigger
        if trigger == "typing":
            trigger += f", {self._session.settings_of(uri).suggestions}"
        if event.id not in self._answers:
            self._answers[event.id] = trigger, ""
            self._count(uri, trigger, SHOWN)
            if len(self._answers) > _MAX_TRACKED:
                del self._answers[next(iter(self._answers))]
        if event.waited_ms is not None:
            self._count(uri, trigger, COMPUTED)
            self._count(uri, trigger, WAITED_MS, round(event.waited_ms))

    def accepted(self, uri: str, event: AcceptedEvent) -> None:
        self._decide(uri, event.id, WHOLE if event.is_whole else PART)

    def rejected(self, uri: str, answer_id: str) -> None:
        self._decide(uri, answer_id, REJECTED)

    def _decide(self, uri: str, answer_id: str, outcome: str) -> None:
        """A part may become the whole; what was accepted is never rejected."""
        trigger, previous = self._answers.get(answer_id, ("", WHOLE))
        if previous and (previous, outcome) != (PART, WHOLE):
            return
        if previous:
            self._count(uri, trigger, previous, -1)
        self._answers[answer_id] = trigger, outcome
        self._count(uri, trigger, outcome)

    def _count(self, uri: str, trigger: str, event: str, by: int = 1) -> None:
        document = self._session.documents.get(uri)
        if document is not None and self._session.settings_of(uri).statistics == "on":
            language = document.language_id if _LANGUAGE.fullmatch(document.language_id) else "other"
            self._writer.count(CounterKey(today(), language, trigger, event), by)
