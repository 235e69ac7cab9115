"""How long fitting may take: some texts take seconds to be parsed, and an answer may have thousands of holes."""

import time
from dataclasses import dataclass, field

from lsp_server.syntax.limit import Limit

MAX_PARSE_S = 0.25
"""Of processor time, for one parse; in a sound file of 5,000 lines it takes a few milliseconds."""


@dataclass
class Patience:
    """Until when (by `time.monotonic`) parses are worth their time, and until when more holes are fitted at all.

    `stop` ends all of it, from another thread. Without an argument nothing is limited but the single parse.
    """

    parse_until_s: float = float("inf")
    until_s: float = float("inf")
    _stopped: bool = False
    _parse: Limit = field(default_factory=lambda: Limit(MAX_PARSE_S))

    @classmethod
    def of(cls, left_s: float) -> "Patience":
        """Patience for `left_s` from now on, of which parses get half."""
        now_s = time.monotonic()
        return cls(now_s + left_s / 2, now_s + left_s)

    @property
    def is_over(self) -> bool:
        """Whether no more holes should be fitted."""
        return self._stopped or time.monotonic() >= self.until_s

    def stop(self) -> None:
        """Nobody waits for the result any more."""
        self._stopped = True
        self._parse.stop()

    def for_parse(self) -> Limit | None:
        """The limit of the next parse; None: there should be no more."""
        if self._stopped or time.monotonic() >= self.parse_until_s:
            return None
        self._parse = Limit(MAX_PARSE_S)
        return self._parse
