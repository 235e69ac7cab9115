"""The writer's connection: opened on first use, and again if the file was replaced or damaged."""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from lsp_server.usage import store
from lsp_server.usage.events import Event
from lsp_server.usage.store import UsageFileError


class UsageConnection:
    """Belongs to one thread. `say` receives error messages."""

    def __init__(self, find: Callable[[], Path], say: Callable[[str], None]) -> None:
        self._find, self._say = find, say
        self._file = Path()
        self._inode = 0
        self._connection: sqlite3.Connection | None = None

    def write(self, events: Sequence[Event]) -> bool:
        """Whether all of `events` are now in the file. Says why not, unless other processes are just writing."""
        try:
            try:
                store.write(self._open(), events)
            except sqlite3.Error as error:
                if not store.is_damaged(error):
                    raise
                self.close()
                store.write(self._open(), events)  # into a new file
        except UsageFileError as error:
            self._say(f"the statistics cannot be written: {error}")
        except (OSError, sqlite3.Error) as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                return False
            self._say(f"the statistics cannot be written: {self._file}: {error}")
        else:
            return True
        self.close()
        return False

    def close(self) -> None:
        """Closes the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        """The connection to the file with the current name: the open one may have been moved."""
        if self._connection is not None and not self._is_same_file():
            self.close()
        if self._connection is None:
            self._file = self._find()
            self._connection, moved = store.open_store(self._file)
            self._inode = self._file.stat().st_ino
            if moved:
                self._say(moved)
        return self._connection

    def _is_same_file(self) -> bool:
        try:
            return self._file.stat().st_ino == self._inode
        except OSError:
            return False
