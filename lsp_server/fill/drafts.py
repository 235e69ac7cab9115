"""Maps a draft to its holes, postprocesses each part like an answer, and describes the progress. No LSP types."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference.ending import CLOSING, first_unlikely_offset, slice_pieces
from inference.messages import Draft
from lsp_server.documents.document import Snapshot
from lsp_server.fill import postprocess
from lsp_server.fill.postprocess import MAX_PARSED_HOLES
from lsp_server.holes import HoleSpan

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


class DraftReader:
    """Reads the drafts of one fill of `spans`; postprocesses only a few changed holes at a time, and parses nothing.

    Like the fill, a draft ends before its first token less likely than `min_prob`.
    """

    def __init__(self, snapshot: Snapshot, spans: Sequence[HoleSpan], min_prob: float = 0.0) -> None:
        self._spans = spans
        self._min_prob = min_prob
        self._fitter = postprocess.FillPostprocessor(snapshot, postprocess.FitDeadline(0))
        self._cached: dict[int, tuple[_Pieces, _Confidences, HoleDraft | None]] = {}

    def read_holes(self, draft: Draft) -> list[HoleDraft]:
        """The holes whose draft has something to insert; the others keep their text."""
        changed = [
            index
            for index, canvas in enumerate(zip(draft.pieces, draft.confidences, strict=True))
            if index < len(self._spans) and self._cached.get(index, (None,))[:2] != canvas
        ]
        for index in changed[:MAX_PARSED_HOLES]:
            pieces = draft.pieces[index]
            confidences = draft.confidences[index]
            self._cached[index] = pieces, confidences, self._hole(self._spans[index], pieces, confidences)
        return [hole for index in sorted(self._cached) if (hole := self._cached[index][2]) is not None]

    def _hole(self, span: HoleSpan, pieces: _Pieces, confidences: _Confidences) -> HoleDraft | None:
        unlikely_offset = first_unlikely_offset(pieces, confidences, self._min_prob)
        text = self._fitter.fit(span, "".join(pieces), unlikely_offset) if pieces else None
        return None if text is None else HoleDraft(span.start, span.end, text, *_by_token(text, pieces, confidences))


def describe_progress(draft: Draft) -> tuple[str, int]:
    """A message such as `step 3`, or `hole 4 of 9, step 3` before the last hole, and the percentage of begun holes.
    The number of steps is unknown in advance: most models end long before their limit.
    """
    holes = len(draft.pieces)
    current = max((index for index, pieces in enumerate(draft.pieces, 1) if pieces), default=0)
    if current in (0, holes):
        return f"step {draft.step}", 0
    return f"hole {current} of {holes}, step {draft.step}", 100 * (current - 1) // holes


def _by_token(text: str, pieces: Sequence[str], confidences: Sequence[float]) -> tuple[_Pieces, _Confidences]:
    """The fitted `text` split at the original token boundaries, or one piece if fitting changed it too much. Closers
    that fitting added at its end are a piece of probability 1.
    """
    if "\r\n" in text:
        pieces = [piece.replace("\r\n", "\n").replace("\n", "\r\n") for piece in pieces]
    whole, bare = "".join(pieces), text.rstrip(CLOSING)
    end = next((end for end in range(len(text), len(bare) - 1, -1) if text[:end] in whole), 0)
    if not end:
        return (text,), (sum(confidences) / max(len(confidences), 1),)
    first = whole.find(text[:end])
    parts, probs = slice_pieces(first, first + end, pieces, confidences)
    return ((*parts, text[end:]), (*probs, 1.0)) if text[end:] else (parts, probs)
