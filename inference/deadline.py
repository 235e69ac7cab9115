"""The deadline of a request, for both packages."""

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Deadline:
    """A point in time on the monotonic clock, which event loops share: `timeout_ms` after `start_s`."""

    timeout_ms: float
    start_s: float = field(default_factory=time.monotonic)

    @property
    def time_s(self) -> float:
        """In seconds of `time.monotonic()`, as `asyncio.timeout_at` takes it."""
        return self.start_s + self.timeout_ms / 1000

    @property
    def is_past(self) -> bool:
        return time.monotonic() >= self.time_s

    @property
    def remaining_ms(self) -> float:
        """The milliseconds left; 0 once it is past."""
        return max((self.time_s - time.monotonic()) * 1000, 0.0)

    @property
    def elapsed_ms(self) -> float:
        return (time.monotonic() - self.start_s) * 1000
