"""The common part of all work on requests: a generator of events with costs and a deadline."""

import time
from abc import abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from inference.deadline import Deadline
from inference.engine.canvas import prompt
from inference.messages import Stats
from inference.models.family import PrefixHandle

_LONGER = 2.0
"""How much longer than measured a pass over many more rows may take, since every row attends to all others."""
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
    """The work on a request: a step is at most one forward pass, None is no news, and closing it frees memory."""

    def __init__(self, deadline: Deadline | None) -> None:
        self._deadline = deadline
        self._counters = RequestCounters()
        self._events = self._run()

    def __next__(self) -> _Event | None:
        return next(self._events)

    def close(self) -> None:
        """Ends the work between two steps, and frees its memory."""
        self._events.close()

    @abstractmethod
    def _run(self) -> Generator[_Event | None, None, None]:
        """All events, Done last."""

    def _is_late(self) -> bool:
        return self._deadline is not None and self._deadline.is_past

    def _is_after(self, time_s: float, share: float) -> bool:
        """Whether a time is past this share of the way to the deadline."""
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
        """Reads a prefix. False: given up, because it is late and more is left to read than a short prefix has.

        With a `share` of the time until the deadline, gives up as soon as it would take more than that. `row_s`: the
        time that the first canvas would take for each token of a prefix which `prefill` does not read.
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
        ends_s = time.monotonic() + _LONGER * row_s * unread
        if not reads and unread > short_tokens and self._is_after(ends_s, 1.0):
            return False  # its canvas would read it, in one piece
        self._counters.prefix_tokens += len(ids) - remaining
        self._counters.reused_tokens += context.reused_tokens
        return remaining == 0
