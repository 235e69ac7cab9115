"""Counts what the user was shown, accepted and rejected, and has a thread write it, so that typing never waits for the
disk.
"""

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lsp_server.fill.feature import Feature, Shown, Taken
from lsp_server.fill.host import Host
from lsp_server.usage.records import Key, Pair, today, usage_file

WRITE_S = 1.0
"""Write this long after the first count."""
RETRY_S = 30.0
"""After a failure, wait this long."""
CLOSE_S = 3.0
"""The end of a session waits this long for a slow disk."""
_MOST_PAIRS = 1000
SHOWN = "shown"
WHOLE = "whole"
PART = "part"
REJECTED = "rejected"
COMPUTED = "computed"
MS = "ms"
"""How many answers were computed, and how long the user waited for them, in all."""
_KEPT = 256
"""An answer older than so many others is no longer followed."""
_LANGUAGE = re.compile(r"[A-Za-z0-9+#._-]{1,32}")
"""A valid language id; any other counts as `other`, because a client may send anything."""


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
        self._warn(
            f"the statistics cannot be written: {why}; all else works; set `statistics` to off to stop this message"
        )
        self._write_after(RETRY_S)


@dataclass
class _Answer:
    trigger: str
    outcome: str = ""


class Usage(Feature):
    """Counts each answer once, however often it is shown, by its last outcome."""

    def __init__(self, host: Host, ledger: Ledger) -> None:
        self._host = host
        self._ledger = ledger
        self._answers: dict[str, _Answer] = {}

    def shown(self, uri: str, shown: Shown) -> None:
        if shown.id not in self._answers:
            self._answers[shown.id] = _Answer(shown.trigger)
            self._count(uri, shown.trigger, SHOWN)
            if len(self._answers) > _KEPT:
                del self._answers[next(iter(self._answers))]
        if shown.waited_ms is not None:
            self._count(uri, shown.trigger, COMPUTED)
            self._count(uri, shown.trigger, MS, round(shown.waited_ms))

    def taken(self, uri: str, taken: Taken) -> None:
        self._decide(uri, taken.id, WHOLE if taken.is_whole else PART)

    def rejected(self, uri: str, answer_id: str) -> None:
        self._decide(uri, answer_id, REJECTED)

    def _decide(self, uri: str, answer_id: str, outcome: str) -> None:
        """A part may become the whole; what was accepted is never rejected."""
        answer = self._answers.get(answer_id)
        if answer is None or answer.outcome not in ("", PART) or (answer.outcome and outcome != WHOLE):
            return
        if answer.outcome:
            self._count(uri, answer.trigger, answer.outcome, -1)
        answer.outcome = outcome
        self._count(uri, answer.trigger, outcome)

    def _count(self, uri: str, trigger: str, event: str, by: int = 1) -> None:
        document = self._host.documents.get(uri)
        if document is not None and self._host.settings_of(uri).statistics == "on":
            self._ledger.count(Key(today(), language_of(document.language_id), trigger, event), by)


def language_of(language_id: str) -> str:
    """A language, as it is counted."""
    return language_id if _LANGUAGE.fullmatch(language_id) else "other"
