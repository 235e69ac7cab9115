"""Maps a draft to its holes, fits each part like an answer, and says how far it is. Knows no LSP types."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from inference.messages import Draft
from lsp_server.documents.document import Snapshot
from lsp_server.fill import postprocess
from lsp_server.fill.postprocess import FEW_HOLES
from lsp_server.holes import Span

_Pieces = tuple[str, ...]
_Confidences = tuple[float, ...]


@dataclass(frozen=True)
class HoleDraft:
    """One hole of a draft: `text` for `[start, end)`, the same text by token, and each token's probability (0 to 1)."""

    start: int
    end: int
    text: str
    pieces: _Pieces
    confidences: _Confidences

    def part(self, first: int, length: int) -> "tuple[_Pieces, _Confidences]":
        return _within(first, first + length, self.pieces, self.confidences)


class DraftReader:
    """Reads the drafts of one fill of `spans`, of which it fits those that changed, a few at a time. Parses nothing."""

    def __init__(self, snapshot: Snapshot, spans: Sequence[Span]) -> None:
        self._spans = spans
        self._fitter = postprocess.FillPostprocessor(snapshot, postprocess.Patience(0))
        self._known: dict[int, tuple[_Pieces, _Confidences, HoleDraft | None]] = {}

    def read(self, draft: Draft) -> list[HoleDraft]:
        """The holes whose draft has something to insert; the others keep their text."""
        changed = [
            number
            for number, canvas in enumerate(zip(draft.pieces, draft.confidences, strict=True))
            if number < len(self._spans) and self._known.get(number, (None,))[:2] != canvas
        ]
        for number in changed[:FEW_HOLES]:
            pieces = draft.pieces[number]
            confidences = draft.confidences[number]
            self._known[number] = pieces, confidences, self._hole(self._spans[number], pieces, confidences)
        return [found for number in sorted(self._known) if (found := self._known[number][2]) is not None]

    def _hole(self, span: Span, pieces: _Pieces, confidences: _Confidences) -> HoleDraft | None:
        text = self._fitter.fit(span, "".join(pieces)) if pieces else None
        return None if text is None else HoleDraft(span.start, span.end, text, *_by_token(text, pieces, confidences))


def progress_of(draft: Draft) -> tuple[str, int]:
    """A message such as `step 3`, or `hole 4 of 9, step 3` before the last hole, and a percentage by the holes begun.
    How many steps there will be nobody knows: most models end long before the most there can be.
    """
    holes = len(draft.pieces)
    begun = max((number for number, pieces in enumerate(draft.pieces, 1) if pieces), default=0)
    if begun in (0, holes):
        return f"step {draft.step}", 0
    return f"hole {begun} of {holes}, step {draft.step}", 100 * (begun - 1) // holes


def _by_token(text: str, pieces: Sequence[str], confidences: Sequence[float]) -> tuple[_Pieces, _Confidences]:
    """The fitted `text` split at the original token boundaries, or one piece if fitting changed it too much."""
    if "\r\n" in text:
        pieces = [piece.replace("\r\n", "\n").replace("\n", "\r\n") for piece in pieces]
    first = "".join(pieces).find(text)
    if first < 0:
        return (text,), (sum(confidences) / max(len(confidences), 1),)
    return _within(first, first + len(text), pieces, confidences)


def _within(first: int, end: int, pieces: Sequence[str], confidences: Sequence[float]) -> tuple[_Pieces, _Confidences]:
    """The pieces, or parts of pieces, within [first, end) of their joined text."""
    starts = accumulate(map(len, pieces), initial=0)
    parts = [piece[max(first - at, 0) : max(end - at, 0)] for piece, at in zip(pieces, starts, strict=False)]
    return tuple(filter(None, parts)), tuple(kept for part, kept in zip(parts, confidences, strict=True) if part)
