"""Holes of one document that both models were asked, followed through its edits: what stands there, taken or not."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lsp_server.carve import splice
from lsp_server.documents.change import Change
from lsp_server.documents.document import Document
from lsp_server.shadow.question import AnsweredRequest
from lsp_server.usage.events import When
from lsp_server.usage.taken import LATER_S, MOST
from lsp_server.usage.text_range import TextRange, smallest

Seen = Callable[[When, Sequence["str | None"]], None]
"""Is told what stands in each hole; None where nobody can tell any more where the hole is."""


@dataclass(frozen=True)
class Followed:
    """The holes of one request. `filled` is the text in which several of them are filled, and where they are then."""

    places: tuple[TextRange | None, ...]
    filled: tuple[str, tuple[TextRange, ...]] | None
    seen: Seen
    later: asyncio.TimerHandle
    computation: str = ""
    is_saved: bool = False


class FollowedHoles:
    """For one event loop. `number` is the document's in the records: random, and another one at each opening."""

    def __init__(self, document: Document, later_s: float = LATER_S) -> None:
        self.document, self.number = document, secrets.randbits(62)
        self._later_s = later_s
        self._followed: OrderedDict[int, Followed] = OrderedDict()

    def add(self, key: int, request: AnsweredRequest, seen: Seen) -> None:
        """Follow the holes of a request, whose answer may be taken or not."""
        timer = asyncio.get_running_loop().call_later(self._later_s, self._look, key, "later")
        filled = _filled(self.document.text, request) if len(request.places) > 1 else None
        self._followed[key] = Followed(tuple(request.places), filled, seen, timer, request.computation)
        while len(self._followed) > MOST:
            self._drop(next(iter(self._followed)))

    def changed(self, changes: Sequence[Change]) -> None:
        """The document has changed."""
        text = self.document.text
        for key, followed in tuple(self._followed.items()):
            places, filled = followed.places, followed.filled
            for change in map(smallest, changes):
                places = tuple(None if place is None else after(place, change) for place in places)
            if filled and text == filled[0]:  # as one change, it does not say which hole got what
                places, filled = filled[1], None
            self._followed[key] = replace(followed, places=places, filled=filled)

    def places(self, key: int) -> Sequence[TextRange | None]:
        """Where the holes of a request are now, as far as it is known."""
        followed = self._followed.get(key)
        return followed.places if followed else ()

    def saved(self) -> None:
        """The document was saved: see what is new since the last time."""
        for key in [key for key, followed in self._followed.items() if not followed.is_saved]:
            self._look(key, "save")

    def withdraw(self, computation: str) -> None:
        """What stands in the holes of this computation is no longer to be seen."""
        for key in [key for key, followed in self._followed.items() if followed.computation == computation]:
            self._drop(key)

    def withdraw_at(self, ranges: Sequence[TextRange]) -> list[int]:
        """The same for the requests with a hole that overlaps any of `ranges`. Returns their keys."""

        def is_there(place: TextRange | None) -> bool:
            return place is not None and any(place.start < each.end and each.start < place.end for each in ranges)

        keys = [key for key, followed in self._followed.items() if any(map(is_there, followed.places))]
        for key in keys:
            self._drop(key)
        return keys

    def close(self) -> None:
        """The document was closed; nothing more is seen of it."""
        for key in tuple(self._followed):
            self._drop(key)

    def _look(self, key: int, when: When) -> None:
        followed, text = self._followed[key], self.document.text
        if when == "save":
            self._followed[key] = replace(followed, is_saved=True, filled=None)
        else:
            self._drop(key)
        followed.seen(when, [None if place is None else place.of(text) for place in followed.places])

    def _drop(self, key: int) -> None:
        self._followed.pop(key).later.cancel()


def after(place: TextRange, change: Change) -> TextRange | None:
    """Where a hole is after a change, made `smallest`; None where nobody can tell.

    Unlike a text that was taken, a hole takes in what is typed right before and right behind it.
    """
    if (change.start, change.end) == (place.start, place.end) or change.start == change.end in (place.start, place.end):
        return TextRange(place.start, place.end + change.shift)
    return place.after(change, "")


def first_lines(text: str, lines: int) -> str:
    """So many of the first lines: what was typed on behind a hole is no part of it, once it is on a line of its own."""
    return "".join(text.splitlines(keepends=True)[:lines])


def _filled(text: str, request: AnsweredRequest) -> tuple[str, tuple[TextRange, ...]]:
    """`text` with every hole filled, and where the fills are then."""
    places, shift = [], 0
    for place, new in zip(request.places, request.texts, strict=True):
        start = place.start + shift
        places.append(TextRange(start, start + len(new)))
        shift += len(new) - (place.end - place.start)
    spans = [
        replace(span, start=place.start, end=place.end)
        for span, place in zip(request.spans, request.places, strict=True)
    ]
    return splice(text, spans, request.texts), tuple(places)
