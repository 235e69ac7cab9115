"""What becomes of one request in the sample: a row once the other model is done, then what stood in the holes."""

import secrets
from collections.abc import Callable, Sequence

from lsp_server.shadow.following import first_lines
from lsp_server.shadow.other_model import OtherAnswer
from lsp_server.shadow.question import AnsweredRequest
from lsp_server.usage.events import Event, Pair, PairHole, PairLook, Side, When


class Pairing:
    """What is seen of the holes before the other model is done waits here, for what it wrote is compared with it.

    Once it is done, nothing of the request is kept but the texts of the holes: a snapshot is as large as its document.
    `document` is the random number of the document, `main` the name of the main model.
    """

    def __init__(
        self,
        request: AnsweredRequest,
        tell: Callable[[Event], None],
        *,
        document: int,
        language: str,
        main: str,
        keeps_texts: bool,
    ) -> None:
        self.key = secrets.randbits(62)
        self.uri = request.snapshot.uri
        self._request: AnsweredRequest | None = request
        self._tell = tell
        self._document, self._language, self._main, self._keeps_texts = document, language, main, keeps_texts
        self._keys = [secrets.randbits(62) for _ in request.spans]
        self._holes: dict[int, PairHole] = {}
        self._waiting: list[tuple[When, Sequence[str | None]]] = []

    @property
    def request(self) -> AnsweredRequest | None:
        """What the other model is to be asked; None once it is done, or nothing may be recorded."""
        return self._request

    def finish(self, answer: OtherAnswer) -> None:
        """The other model is done. Of what was dropped nothing is told."""
        request, waiting = self._request, self._waiting
        if request is None:
            return
        holes = request.holes(self._keys, answer.texts)
        main = Side(self._main, request.first_ms, request.whole_ms, request.confidence)
        self._tell(
            Pair(
                self.key,
                request.at_s,
                self._document,
                self._language,
                request.trigger,
                answer.outcome,
                main,
                answer.side,
                holes,
                answer.error,
                self._keeps_texts,
            )
        )
        self._holes = {hole.key: hole for hole in holes}
        self._request, self._waiting = None, []
        for when, stands in waiting:
            self.seen(when, stands)

    def drop(self) -> None:
        """Nothing of this may be recorded."""
        self._request, self._waiting = None, []

    def seen(self, when: When, stands: Sequence[str | None]) -> None:
        """What stands in each hole now; None where nobody can tell."""
        if self._request is not None:
            self._waiting.append((when, stands))
            return
        for key, text in zip(self._keys, stands, strict=True):
            hole = self._holes.get(key)
            if hole is not None and text is not None:
                self._tell(PairLook(hole, when, first_lines(text, _lines(hole)), self._keeps_texts))


def _lines(hole: PairHole) -> int:
    """How many lines the longer text has: of what stands there, more would count against both alike."""
    return max(1, *(len(text.splitlines()) for text in (hole.main, hole.other or "")))
