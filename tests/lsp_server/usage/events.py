"""Events for tests, with numbers of their own."""

import time

from lsp_server.usage.events import Answered, Decided, Event, Look, Shown


def suggestion(key: int, *, at_s: float | None = None) -> list[Event]:
    """A suggestion that was shown, taken and looked at."""
    return [
        Shown(key, time.time() if at_s is None else at_s, "python", "line", "typing", 0.5, 10),
        Answered(key, False, 20.0, 100.0),
        Decided(key, "whole", 10),
        Look(key, "save", "taken text", "taken text"),
    ]
