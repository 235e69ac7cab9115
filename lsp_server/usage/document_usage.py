"""Turns what happens to the suggestions of one open document into events. Holds text in memory only."""

import re
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lsp_server.carve import Span
from lsp_server.documents.change import Change, difference
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.tracking import ExpectedEdit, TextRange, smallest
from lsp_server.usage.events import Answered, Decided, Event, Outcome, Shown, Trigger
from lsp_server.usage.taken import LATER_S, TakenTexts

_KEPT_OFFERS = 64
_KEPT_INSERTIONS = 4
_LANGUAGE = re.compile(r"[A-Za-z0-9+#._-]{1,32}")
"""A valid language id; any other counts as `other`, because a client may send anything."""


@dataclass(frozen=True)
class Offer:
    """A computation's offer at the cursor. Its first text would add `characters` to the existing text."""

    name: str
    kind: str
    trigger: Trigger
    confidence: float | None
    characters: int


@dataclass(frozen=True)
class Timing:
    """When a request arrived and its first draft was shown, by `time.monotonic`; it is answered now."""

    asked_s: float
    first_draft_s: float | None = None
    remembered: bool = False


@dataclass
class _Record:
    key: int = field(default_factory=lambda: secrets.randbits(62))
    outcome: Outcome | None = None
    taken_characters: int = 0


class DocumentUsage:
    """`tell` receives each event; never waits."""

    def __init__(self, document: Document, tell: Callable[[Event], None], later_s: float = LATER_S) -> None:
        self.document = document
        self._tell = tell
        self._offers: OrderedDict[str, _Record] = OrderedDict()
        self._insertions: deque[tuple[TextRange, str]] = deque(maxlen=_KEPT_INSERTIONS)
        self._fill: tuple[ExpectedEdit, list[tuple[_Record, TextRange]]] | None = None
        self._taken = TakenTexts(lambda: document.text, tell, later_s)

    def changed(self, changes: Sequence[Change]) -> None:
        """The document has changed."""
        for change in map(smallest, changes):
            moved = ((place.after(change, text), text) for place, text in self._insertions)
            self._insertions = deque(((place, text) for place, text in moved if place), maxlen=_KEPT_INSERTIONS)
            self._taken.changed(change)
            if change.added:
                self._insertions.append((TextRange(change.start, change.start + len(change.added)), change.added))
        if self._fill is None:
            return
        edit, holes = self._fill
        happened = edit.has_happened(changes, self.document.text)
        if happened or edit.is_given_up:
            self._fill = None
        for record, place in holes if happened else ():
            self._take(record, place, "whole")

    def saved(self) -> None:
        """The document was saved."""
        self._taken.saved()

    def close(self) -> None:
        """The document was closed."""
        self._taken.close()

    def shown(self, offer: Offer, timing: Timing) -> int:
        """A request was answered with an offer, recorded when first shown. Returns the key of the suggestion."""
        record = self._offers.get(offer.name)
        if record is None:
            record = self._offers[offer.name] = _Record()
            self._tell_shown(record, offer.kind, offer.trigger, offer.confidence, offer.characters)
            while len(self._offers) > _KEPT_OFFERS:
                self._offers.popitem(last=False)
        self._tell(_answered(record, timing))
        return record.key

    def accepted(self, name: str, start: int, length: int, *, whole: bool) -> None:
        """The user accepted `length` characters of an offer, now at `start`. Only what came at once counts."""
        record = self._offers.get(name)
        if record is None or record.outcome == "whole":
            return
        inside = (place for place, _ in reversed(self._insertions) if start <= place.start < start + length)
        last = next(inside, TextRange(start, start))
        self._take(record, TextRange(last.start, min(last.end, start + length)), "whole" if whole else "part")

    def rejected(self, name: str) -> None:
        """The user rejects an offer. Any accepted part of it stays accepted."""
        record = self._offers.get(name)
        if record is not None and record.outcome is None:
            self._decide(record, "rejected")

    def filled(
        self, snapshot: Snapshot, spans: Sequence[Span], texts: Sequence[str], timing: Timing
    ) -> list[int | None]:
        """The editor gets an edit that fills these holes. Returns their suggestion keys; None: a text is unchanged."""
        edit = ExpectedEdit(snapshot.text, [TextRange(span.start, span.end) for span in spans], texts)
        holes, keys = list[tuple[_Record, TextRange]](), list[int | None]()
        for span, text, place in zip(spans, texts, edit.places, strict=True):
            new = difference(snapshot.text[span.start : span.end], text)
            keys.append(None)
            if new.added or new.removed:
                record, start = _Record(), place.start + new.start
                keys[-1] = record.key
                holes.append((record, TextRange(start, start + len(new.added))))
                self._tell_shown(record, span.kind, "action", None, len(new.added))
        if holes:
            self._tell(_answered(holes[0][0], timing))
            self._fill = edit, holes
        return keys

    def refused(self) -> None:
        """The editor did not apply the last fill."""
        fill, self._fill = self._fill, None
        for record, _ in fill[1] if fill else ():
            self._decide(record, "rejected")

    def _take(self, record: _Record, place: TextRange, outcome: Outcome) -> None:
        record.taken_characters += place.end - place.start
        self._decide(record, outcome)
        self._taken.add(record.key, place)

    def _decide(self, record: _Record, outcome: Outcome) -> None:
        record.outcome = outcome
        self._tell(Decided(record.key, outcome, record.taken_characters))

    def _tell_shown(
        self, record: _Record, kind: str, trigger: Trigger, confidence: float | None, characters: int
    ) -> None:
        language = language_of(self.document)
        self._tell(Shown(record.key, time.time(), language, str(kind), trigger, confidence, characters))


def language_of(document: Document) -> str:
    """The document's language, as counted."""
    return document.language_id if _LANGUAGE.fullmatch(document.language_id) else "other"


def _answered(record: _Record, timing: Timing) -> Answered:
    draft_s = timing.first_draft_s
    first_draft_ms = None if draft_s is None else (draft_s - timing.asked_s) * 1000
    return Answered(record.key, timing.remembered, first_draft_ms, (time.monotonic() - timing.asked_s) * 1000)
