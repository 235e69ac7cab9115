"""Collects counts and comparisons, and has a thread write them, so that typing never waits for the disk."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from lsp_server.fill.feature import Feature
from lsp_server.usage.records import Key, Pair, usage_file

WRITE_S = 1.0
"""Write this long after the first count."""
RETRY_S = 30.0
"""After a failure, wait this long."""
CLOSE_S = 3.0
"""The end of a session waits this long for a slow disk."""
_MOST_PAIRS = 1000


class Ledger(Feature):
    """Used on one event loop. Calls `warn` with the reason if the file cannot be written, and tries again later."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._counts: Counter[Key] = Counter()
        self._pairs: list[Pair] = []
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None

    def count(self, key: Key, by: int = 1) -> None:
        """Adds to a counter."""
        self._counts[key] += by
        self._write_after(WRITE_S)

    def add(self, pair: Pair) -> None:
        """Keeps a comparison."""
        self._pairs = [*self._pairs, pair][-_MOST_PAIRS:]
        self._write_after(WRITE_S)

    async def ended(self) -> None:
        """Writes the rest, but does not wait for a hung disk."""
        if self._timer is not None:
            self._timer.cancel()
            self._write()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, CLOSE_S)

    def _write_after(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._write)

    def _write(self) -> None:
        self._timer = None
        if self._thread is not None and self._thread.is_alive():
            self._write_after(RETRY_S)
            return
        counts = self._counts
        pairs = self._pairs
        self._counts = Counter()
        self._pairs = []
        work = (counts, pairs, asyncio.get_running_loop())
        self._thread = threading.Thread(target=self._in_thread, args=work, name="usage", daemon=True)
        self._thread.start()

    def _in_thread(self, counts: Mapping[Key, int], pairs: Sequence[Pair], loop: asyncio.AbstractEventLoop) -> None:
        try:
            from lsp_server.usage import store  # here, because SQLite takes 20 ms to load

            why = store.problem_of_writing(usage_file(), counts, pairs)
        except ImportError as error:
            why = f"this Python was built without SQLite ({error})"
        if why:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._failed, why, counts, pairs)

    def _failed(self, why: str, counts: Mapping[Key, int], pairs: Sequence[Pair]) -> None:
        self._counts.update(counts)
        self._pairs = [*pairs, *self._pairs][-_MOST_PAIRS:]
        self._warn(f"the statistics cannot be written: {why}; nothing else is affected; or set `statistics` to off")
        self._write_after(RETRY_S)
