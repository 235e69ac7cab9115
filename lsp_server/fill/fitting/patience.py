"""Limits the time for fitting: some texts take seconds to parse, and an answer may have thousands of holes."""

import time
from dataclasses import dataclass, field

from lsp_server.syntax.limit import Limit

MAX_PARSE_S = 0.25
"""Processor time for one parse; in a sound file of 5,000 lines it takes a few milliseconds."""


@dataclass
class Patience:
    """Two deadlines (by `time.monotonic`): one for parsing, one for fitting further holes. `stop` ends both."""

    parse_until_s: float = float("inf")
    until_s: float = float("inf")
    _stopped: bool = False
    _parse: Limit = field(default_factory=lambda: Limit(MAX_PARSE_S))

    @classmethod
    def of(cls, left_s: float) -> "Patience":
        """Patience for `left_s` from now; parses get half of it."""
        now_s = time.monotonic()
        return cls(now_s + left_s / 2, now_s + left_s)

    @property
    def is_over(self) -> bool:
        """Whether to stop fitting more holes."""
        return self._stopped or time.monotonic() >= self.until_s

    def stop(self) -> None:
        """The result is no longer wanted."""
        self._stopped = True
        self._parse.stop()

    def for_parse(self) -> Limit | None:
        """The time limit of the next parse; None: do not parse."""
        if self._stopped or time.monotonic() >= self.parse_until_s:
            return None
        self._parse = Limit(MAX_PARSE_S)
        return self._parse
