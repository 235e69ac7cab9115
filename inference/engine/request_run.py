"""The base class of the runs of all requests: a generator of events that counts its costs and knows its deadline."""

import time
from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from inference.deadline import Deadline
from inference.engine.canvas import prompt
from inference.messages import Stats
from inference.models.family import PrefixHandle

_MANY_ROWS_FACTOR = 2.0
"""How many times as long as measured a pass over many more rows may take: every row attends to all others."""
_Event = TypeVar("_Event")


@dataclass
class RequestCounters:
    """Time, steps and tokens of one request so far, for its `Stats`."""

    started: float = field(default_factory=time.monotonic)
    encode_ms: float = 0.0
    steps: int = 0
    canvases: int = 0
    prefix_tokens: int = 0
    reused_tokens: int = 0

    def ms(self) -> float:
        return (time.monotonic() - self.started) * 1000

    def stats(self) -> Stats:
        return Stats(self.ms(), self.encode_ms, self.steps, self.canvases, self.prefix_tokens, self.reused_tokens)


class RequestRun(Iterator[_Event | None]):
    """Works on one request. Each `next` makes at most one forward pass and returns an event, or None without news."""

    def __init__(self, deadline: Deadline | None) -> None:
        self._deadline = deadline
        self._counters = RequestCounters()
        self._events = self._run()

    def __next__(self) -> _Event | None:
        return next(self._events)

    def close(self) -> None:
        """Stops the work between two steps and frees its memory."""
        self._events.close()

    @abstractmethod
    def _run(self) -> Generator[_Event | None, None, None]:
        """Yields all events, the last of which is Done."""

    def _is_late(self) -> bool:
        return self._deadline is not None and self._deadline.is_past

    def _is_after(self, time_s: float, share: float) -> bool:
        """Whether more than `share` of the time until the deadline has passed at `time_s` of the monotonic clock."""
        started = self._counters.started
        return self._deadline is not None and time_s >= started + share * (self._deadline.time_s - started)

    def _prefill_context(
        self,
        context: PrefixHandle,
        ids: Sequence[int],
        *,
        share: float | None = None,
        short_tokens: int = prompt.SHORT_PREFIX_TOKENS,
        row_s: float = 0.0,
    ) -> Generator[None, None, bool]:
        """Prefills a prefix. Returns False if it gave up: it is late, and more than `short_tokens` are still to read.

        With a `share` of the time until the deadline, gives up as soon as prefill would take more than that. `row_s`:
        the seconds per prefix token of the first canvas, which reads the prefix itself if `prefill` does not.
        """
        remaining = 0
        began = time.monotonic()
        unread = len(ids) - context.reused_tokens
        first_s = began
        reads = False
        for remaining in context.prefill():
            reads = True
            self._counters.encode_ms += (time.monotonic() - began) * 1000
            yield None
            began = time.monotonic()
            s_per_token = (began - first_s) / max(1, unread - remaining)
            ends_s = began if share is None else began + remaining * s_per_token
            if remaining > short_tokens and self._is_after(ends_s, share or 1.0):
                break
        ends_s = time.monotonic() + _MANY_ROWS_FACTOR * row_s * unread
        if not reads and unread > short_tokens and self._is_after(ends_s, 1.0):
            return False  # the canvas would read all of it in one pass
        self._counters.prefix_tokens += len(ids) - remaining
        self._counters.reused_tokens += context.reused_tokens
        return remaining == 0
