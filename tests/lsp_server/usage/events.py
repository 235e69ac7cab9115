"""Events for tests, with numbers of their own."""

import time
from collections.abc import Iterable
from typing import Any

from lsp_server.usage.events import Answered, Decided, Event, Look, Pair, PairHole, PairLook, Shown, Side
from lsp_server.usage.place import usage_file
from lsp_server.usage.writer import UsageWriter


def suggestion(key: int, *, at_s: float | None = None) -> list[Event]:
    """A suggestion that was shown, taken and looked at."""
    return [
        Shown(key, time.time() if at_s is None else at_s, "python", "line", "typing", 0.5, 10),
        Answered(key, False, 20.0, 100.0),
        Decided(key, "whole", 10),
        Look(key, "save", "taken text", "taken text"),
    ]


def compared(
    suggestion_key: int, *, texts: tuple[str, str, str] = ("taken text", "other text", "taken text")
) -> list[Event]:
    """A request that both models were asked, of one hole with that suggestion, and what stood there at a save."""
    main, other, stands = texts
    hole = PairHole(suggestion_key + 10_000_000, suggestion_key, "line", main, other)
    sides = Side("embedded", 50.0), Side("partner", 300.0)
    told = Pair(suggestion_key, time.time(), 7, "python", "typing", "answered", *sides, (hole,))
    return [told, PairLook(hole, "save", stands)]


def record(simulated: Iterable[Any]) -> None:
    """Has a writer put their `events()` into the file, and waits for that."""
    writer = UsageWriter(usage_file, print)
    for one in simulated:
        for event in one.events():
            writer.add(event)
    writer.close(60)
