"""Turns the hole rows of a canvas back into text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from inference.engine.canvas.layout import HoleRows, Slots
from inference.engine.canvas.vocabulary import LINE_BREAKS, Vocabulary

_LEAST = 1e-9


@dataclass(frozen=True)
class Written:
    """A canvas with every hole filled, by any means: W ids, and the probability of each."""

    ids: Sequence[int]
    confidences: Sequence[float]
    spans: Sequence[HoleRows]
    steps: int
    """The passes it took: denoising steps, or one per token."""

    @property
    def tokens(self) -> int:
        return sum(end - first for first, _, end in self.spans)

    @property
    def confidence(self) -> float:
        """The mean probability of the tokens that were not given; 1 if all were."""
        return fmean(self._chosen or [1.0])

    @property
    def log_confidence(self) -> float:
        """The mean of its logarithm."""
        return fmean(math.log(max(sure, _LEAST)) for sure in self._chosen or [1.0])

    @property
    def _chosen(self) -> list[float]:
        return [self.confidences[row] for _, first, end in self.spans for row in range(first, end)]


def texts(
    vocabulary: Vocabulary, ids: Sequence[int], spans: Sequence[HoleRows], holes: Sequence[Slots]
) -> tuple[str, ...]:
    """The texts of the holes of one canvas (W,), without the bytes that healing moved into them."""
    pairs = zip(spans, holes, strict=True)
    found = (b"".join(values(vocabulary, ids, span, hole))[hole.skip :] for span, hole in pairs)
    return tuple(text.decode("utf-8", errors="replace") for text in found)


def values(vocabulary: Vocabulary, ids: Sequence[int], span: HoleRows, hole: Slots) -> list[bytes]:
    """The bytes of a hole's rows with what healing moved there; a line break ends a single-line hole in mid-token."""
    first, _, end = span
    found = list[bytes]()
    before = 0
    for id_ in ids[first:end]:
        value = vocabulary.bytes_of([id_])
        at = max(0, hole.given - before)
        ends = [place for mark in LINE_BREAKS if (place := value.find(mark, at)) >= 0] if hole.single_line else []
        found.append(value[: min(ends)] if ends else value)
        if ends:
            break
        before += len(value)
    return found


def pieces(
    vocabulary: Vocabulary, ids: Sequence[int], confidences: Sequence[float], span: HoleRows, hole: Slots
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The current text of one hole: a text per token, whole characters only, and the confidence of each.

    `confidences` (W,) belong to the rows of the canvas. Tokens that hold half a character join the next one.
    """
    skip = hole.skip
    pending = b""
    lowest = 1.0
    found: list[tuple[str, float]] = []
    for row, value in enumerate(values(vocabulary, ids, span, hole), span[0]):
        skip, value = max(0, skip - len(value)), value[skip:]
        pending = pending + value
        lowest = min(lowest, confidences[row])
        text = pending.decode("utf-8", errors="ignore")
        if text and text.encode() == pending:
            found.append((text, lowest))
            pending = b""
            lowest = 1.0
    return tuple(text for text, _ in found), tuple(confidence for _, confidence in found)
