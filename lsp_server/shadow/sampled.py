"""One sampled request: both models' texts, and the text in its holes at the next save and later."""

import asyncio
import secrets
from collections.abc import Callable, Sequence

from lsp_server.documents.change import Change
from lsp_server.documents.document import Document
from lsp_server.documents.tracking import ExpectedEdit, TextRange, smallest
from lsp_server.shadow.other_model import AnsweredRequest, OtherAnswer
from lsp_server.usage.document_usage import language_of
from lsp_server.usage.events import Event, Pair, PairHole, PairLook, Side, When


class Sampled:
    """A sampled request, whose holes are compared with both models' texts, even if the other one answers later."""

    def __init__(
        self, request: AnsweredRequest, document: Document, number: int, main: str, tell: Callable[[Event], None]
    ) -> None:
        self.uri, self.computation = document.uri, request.computation
        self.request: AnsweredRequest | None = request
        """The question for the other model; None once it is done."""
        self.is_dropped = False
        self._document, self._number, self._main, self._tell = document, number, main, tell
        self._places: Sequence[TextRange | None] = tuple(request.places)
        self._edit = ExpectedEdit(document.text, request.places, request.texts) if len(request.places) > 1 else None
        self._keys = [secrets.randbits(62) for _ in request.spans]
        self._holes: dict[int, PairHole] = {}
        self._waiting: list[tuple[When, list[str | None]]] = []
        self._is_saved = False
        self._later: asyncio.TimerHandle | None = None

    def look_later(self, after_s: float) -> None:
        """Look at the holes after this long."""
        self._later = asyncio.get_running_loop().call_later(after_s, self._look, "later")

    def changed(self, changes: Sequence[Change]) -> None:
        """The document has changed."""
        for change in map(smallest, changes):
            self._places = [place and place.after(change, grows=True) for place in self._places]
        if self._edit is not None and self._edit.has_happened(changes, self._document.text):
            self._places, self._edit = self._edit.places, None  # a single change does not show which hole got what
        elif self._edit is not None and self._edit.is_given_up:
            self._edit = None

    def saved(self) -> None:
        """The document was saved: the first save since the answer counts."""
        if not self._is_saved:
            self._is_saved = True
            self._look("save")

    def is_at(self, places: Sequence[TextRange]) -> bool:
        """Whether one of its holes overlaps one of these."""
        return any(mine is not None and mine.overlaps(each) for mine in self._places for each in places)

    def finish(self, answer: OtherAnswer) -> None:
        """The other model is done. Reports nothing about drops."""
        request, self.request = self.request, None
        if request is None or self.is_dropped:
            return
        holes = tuple(self._holes_of(request, answer.texts))
        language, main = language_of(self._document), Side(self._main, request.whole_ms)
        about = (secrets.randbits(62), request.at_s, self._number, language, request.trigger)
        self._tell(Pair(*about, answer.outcome, main, answer.side, holes, answer.error))
        self._holes = {hole.key: hole for hole in holes}
        for when, stands in self._waiting:
            self._tell_looks(when, stands)

    def drop(self) -> None:
        """Records nothing more about this request."""
        self.is_dropped, self.request = True, None
        if self._later is not None:
            self._later.cancel()

    def _holes_of(self, request: AnsweredRequest, others: Sequence[str] | None) -> list[PairHole]:
        """The holes that the main model filled. If the other model leaves one unchanged, it wrote nothing."""
        found = []
        for at, (span, suggestion) in enumerate(zip(request.spans, request.suggestions, strict=True)):
            if suggestion is not None:
                current = request.snapshot.text[span.start : span.end]
                other = None if others is None or others[at] == current else others[at]
                found.append(PairHole(self._keys[at], suggestion, str(span.kind), request.texts[at], other))
        return found

    def _look(self, when: When) -> None:
        text = self._document.text
        stands = [None if place is None else place.of(text) for place in self._places]
        if self.request is not None:
            self._waiting.append((when, stands))
        elif not self.is_dropped:
            self._tell_looks(when, stands)
        if when == "later":  # later saves add nothing
            self._is_saved = True

    def _tell_looks(self, when: When, stands: Sequence[str | None]) -> None:
        for key, text in zip(self._keys, stands, strict=True):
            hole = self._holes.get(key)
            if hole is not None and text is not None:
                lines = max(1, *(len(wrote.splitlines()) for wrote in (hole.main, hole.other or "")))
                first = "".join(text.splitlines(keepends=True)[:lines])  # text typed below does not belong to it
                self._tell(PairLook(hole, when, first))
