"""The writing thread, which begins with the first event. Adding never waits; a failed write is retried."""

import logging
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lsp_server.usage.events import Event, Look, Lost, Pair, PairLook

if TYPE_CHECKING:
    from lsp_server.usage.connection import UsageConnection

log = logging.getLogger(__name__)
MOST_WAITING = 10_000
"""Drop and count events beyond this; as many more may be in the batch being written."""
BATCH_S = 0.25
RETRY_S = 30.0
"""After a failure, wait this long before trying the file again."""
_HINT = "nothing else is affected; make it writable, or set `statistics` to off"


class UsageWriter:
    """Writes to the file that `find` names. Calls `tell` in the writing thread for each problem."""

    def __init__(self, find: Callable[[], Path], tell: Callable[[str], None]) -> None:
        self._find, self._tell = find, tell
        self._queue: queue.Queue[Event | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._is_ending = threading.Event()
        self._dropped = self._reported = 0

    def add(self, event: Event) -> None:
        """Queues an event. Never waits."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="usage", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self._dropped += 1

    def close(self, limit_s: float) -> None:
        """Writes pending events for at most this long. No more may be added."""
        if self._thread is not None:
            self._is_ending.set()
            try:
                self._queue.put(None, timeout=limit_s)
            except queue.Full:
                return
            self._thread.join(limit_s)

    def _run(self) -> None:
        try:
            from lsp_server.usage.connection import UsageConnection  # here, because SQLite takes 20 ms to load
        except ImportError as error:
            self._say(f"the statistics cannot be written: this Python was built without SQLite ({error})")
            return
        connection, is_last = UsageConnection(self._find, self._say), False
        while not is_last:
            batch, is_last = self._gather()
            for part in _looks_last(batch):
                while not self._write(connection, part):
                    if self._is_ending.is_set():
                        return
                    self._is_ending.wait(RETRY_S)
        connection.close()

    def _gather(self) -> tuple[list[Event], bool]:
        """The events up to the next time to write, and whether that was the last."""
        event, batch = self._queue.get(), list[Event]()
        until_s = time.monotonic() + BATCH_S
        while event is not None and len(batch) < MOST_WAITING:
            batch.append(event)
            try:
                event = self._queue.get(timeout=max(until_s - time.monotonic(), 0))
            except queue.Empty:
                return batch, False
        return [*batch, event] if event else batch, event is None

    def _write(self, connection: "UsageConnection", batch: list[Event]) -> bool:
        """Whether `batch` can be discarded."""
        dropped = self._dropped
        lost = [Lost(time.time(), dropped - self._reported)] if dropped > self._reported else []
        try:
            is_written = connection.write([*batch, *lost])
        except Exception as error:  # our own bug; drop the batch, or the bug would repeat
            log.error("the statistics lack %d events: %s", len(batch), type(error).__name__)
            return True
        if is_written:
            self._reported = dropped
        return is_written

    def _say(self, message: str) -> None:
        self._tell(f"{message}; {_HINT}")


def _looks_last(batch: list[Event]) -> list[list[Event]]:
    """Splits the batch: events to write now, and events to compare first, which may exceed the time left."""
    looks: list[Event] = [event for event in batch if isinstance(event, Look | Pair | PairLook)]
    others: list[Event] = [event for event in batch if not isinstance(event, Look | Pair | PairLook)]
    return [part for part in (others, looks) if part]
