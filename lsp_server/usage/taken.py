"""The accepted texts of one document, followed through its edits: the text there at a save, and later."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from lsp_server.documents.change import Change
from lsp_server.documents.tracking import TextRange
from lsp_server.usage.events import Look, When

MOST = 64
"""Follow this many in one document, and stop watching older ones."""
LATER_S = 300.0


@dataclass(frozen=True)
class TakenText:
    """`text` was accepted and is now at `place`."""

    place: TextRange
    text: str
    later: asyncio.TimerHandle
    is_saved: bool = False


class TakenTexts:
    """For one event loop. `tell` receives observations, `read` returns the document's text."""

    def __init__(self, read: Callable[[], str], tell: Callable[[Look], None], later_s: float = LATER_S) -> None:
        self._read, self._tell, self._later_s = read, tell, later_s
        self._taken: OrderedDict[int, TakenText] = OrderedDict()

    def add(self, key: int, place: TextRange) -> None:
        """The text at `place` was accepted from the suggestion `key`, and joins any earlier part of it."""
        before = self._taken.get(key)
        if before is not None:
            self._drop(key)
            place = TextRange(min(place.start, before.place.start), max(place.end, before.place.end))
        timer = asyncio.get_running_loop().call_later(self._later_s, self._look, key, "later")
        self._taken[key] = TakenText(place, place.of(self._read()), timer)
        while len(self._taken) > MOST:
            self._drop(next(iter(self._taken)))

    def changed(self, change: Change) -> None:
        """The document has changed; `change` is the smallest equivalent change."""
        for key, taken in tuple(self._taken.items()):
            place = taken.place.after(change, taken.text)
            if place is None:
                self._drop(key)
            elif place is not taken.place:
                self._taken[key] = replace(taken, place=place)

    def saved(self) -> None:
        """The document was saved: records what is new since the last time."""
        for key in [key for key, taken in self._taken.items() if not taken.is_saved]:
            self._look(key, "save")

    def close(self) -> None:
        """The document was closed; stops watching it."""
        for key in tuple(self._taken):
            self._drop(key)

    def _look(self, key: int, when: When) -> None:
        taken = self._taken[key]
        self._tell(Look(key, when, taken.text, taken.place.of(self._read())))
        if when == "save":
            self._taken[key] = replace(taken, is_saved=True)
        else:
            self._drop(key)  # later saves add nothing

    def _drop(self, key: int) -> None:
        self._taken.pop(key).later.cancel()
