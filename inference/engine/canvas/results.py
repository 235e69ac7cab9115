"""Combines the fills of a request's canvases into candidates for all holes.

Does not know how a canvas was filled: by the engine's own steps, or by a remote server.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from inference.engine.canvas import repetition
from inference.engine.canvas.layout import CanvasHole, HoleRows
from inference.engine.canvas.plan import CanvasPlanner
from inference.engine.canvas.vocabulary import LINE_BREAKS, Vocabulary
from inference.messages import Draft, FilledHoles, Hole

REPLACEMENT_CHARACTER = "\ufffd"
"""Replaces bytes that form no whole character."""
_MIN_PROB = 1e-9


@dataclass(frozen=True)
class FilledCanvas:
    """A canvas with every hole filled, by any means: W ids, and the probability of each."""

    ids: Sequence[int]
    confidences: Sequence[float]
    spans: Sequence[HoleRows]
    steps: int
    """The passes it took: denoising steps, or one per token."""

    @property
    def num_tokens(self) -> int:
        return sum(end - first for first, _, end in self.spans)

    @property
    def mean_logprob(self) -> float:
        """The mean log-probability of the tokens that were not forced; 0 if all were."""
        probs = [self.confidences[row] for _, first, end in self.spans for row in range(first, end)]
        return fmean(math.log(max(prob, _MIN_PROB)) for prob in probs or [1.0])

    def texts(self, vocabulary: Vocabulary, holes: Sequence[CanvasHole]) -> tuple[str, ...]:
        """The texts of the holes, without the bytes that healing moved into them."""
        values = (
            b"".join(self.hole_bytes(vocabulary, index, hole))[hole.num_healed_bytes :]
            for index, hole in enumerate(holes)
        )
        return tuple(text.decode("utf-8", errors="replace") for text in values)

    def hole_bytes(self, vocabulary: Vocabulary, index: int, hole: CanvasHole) -> list[bytes]:
        """The bytes of each row of a hole, healed ones too. A single-line hole ends at a line break inside a token."""
        first, _, last = self.spans[index]
        values = list[bytes]()
        num_bytes = 0
        for id_ in self.ids[first:last]:
            value = vocabulary.bytes_of([id_])
            start = max(0, hole.num_forced_bytes - num_bytes)
            ends = [end for mark in LINE_BREAKS if (end := value.find(mark, start)) >= 0] if hole.single_line else []
            values.append(value[: min(ends)] if ends else value)
            if ends:
                break
            num_bytes += len(value)
        return values

    def token_texts(self, vocabulary: Vocabulary, index: int, hole: CanvasHole) -> "TokenTexts":
        """The current text of one hole, a piece per token, and the confidence of each.

        A token that ends within a character is joined with the next one.
        """
        skip = hole.num_healed_bytes
        pending = b""
        lowest = 1.0
        token_texts: list[tuple[str, float]] = []
        for row, value in enumerate(self.hole_bytes(vocabulary, index, hole), self.spans[index][0]):
            skip, value = max(0, skip - len(value)), value[skip:]
            pending = pending + value
            lowest = min(lowest, self.confidences[row])
            text = pending.decode("utf-8", errors="ignore")
            if text and text.encode() == pending:
                token_texts.append((text, lowest))
                pending = b""
                lowest = 1.0
        return tuple(text for text, _ in token_texts), tuple(confidence for _, confidence in token_texts)


TokenTexts = tuple[tuple[str, ...], tuple[float, ...]]
"""The text of a hole, a piece per token, and the confidence of each."""


@dataclass(frozen=True)
class RankedFill:
    """A text for each hole of one canvas, also split into `token_texts`. The highest `score` is the best."""

    texts: tuple[str, ...]
    score: float
    tokens: int
    index: int
    """The index of its canvas."""
    canvas: FilledCanvas
    token_texts: tuple[TokenTexts, ...]
    """One for each hole; empty if they are unknown."""


FillsByHole = Mapping[int, list[RankedFill]]
"""The fills of each canvas, best first, by its first hole, in filling order."""


def fill_flaws(fill: RankedFill) -> tuple[bool, bool, bool]:
    """Reasons to rank a fill last: an empty hole, half a character, or repetition."""
    has_broken = any(REPLACEMENT_CHARACTER in text for text in fill.texts)
    return not all(fill.texts), has_broken, any(map(repetition.is_repetitive, fill.texts))


def rank_fills(
    vocabulary: Vocabulary, holes: Sequence[CanvasHole], canvases: Sequence[FilledCanvas], scores: Sequence[float]
) -> list[RankedFill]:
    """The different fills of these holes, best first; those with a flaw come last."""
    best: dict[tuple[str, ...], RankedFill] = {}
    for index in sorted(range(len(canvases)), key=lambda index: -scores[index]):
        canvas = canvases[index]
        texts = canvas.texts(vocabulary, holes)
        if texts not in best:
            token_texts = tuple(canvas.token_texts(vocabulary, i, hole) for i, hole in enumerate(holes))
            best[texts] = RankedFill(texts, scores[index], canvas.num_tokens, index, canvas, token_texts)
    return sorted(best.values(), key=fill_flaws)


def adds_broken_character(text: str, hole: Hole) -> bool:
    """Whether a fill contains half a character that the hole's own text does not."""
    return text.count(REPLACEMENT_CHARACTER) > (hole.text or hole.starts_with).count(REPLACEMENT_CHARACTER)


def adds_repetition(text: str, hole: Hole) -> bool:
    """Whether a fill repeats itself, unless the hole's own text does."""
    return repetition.is_repetitive(text) and not repetition.is_repetitive(hole.text or hole.starts_with)


class RequestProgress:
    """The finished canvases of one request, as `FillsByHole`."""

    def __init__(self, planner: CanvasPlanner) -> None:
        self.done: dict[int, list[RankedFill]] = {}
        self._planner = planner

    @property
    def is_complete(self) -> bool:
        return self._end == len(self._planner.request.holes)

    def next_canvas(self) -> tuple[range, list[str]]:
        """The holes of the next canvas, and the best texts of all holes before them."""
        return self._planner.group_from(self._end), [text for fills in self.done.values() for text in fills[0].texts]

    @property
    def _end(self) -> int:
        return sum(len(fills[0].texts) for fills in self.done.values())


def build_draft(request_id: str, step: int, max_steps: int, parts: Mapping[int, TokenTexts], num_holes: int) -> Draft:
    """A draft with the current texts of the holes in `parts`; the other holes are empty."""
    texts, confidences = zip(*(parts.get(index, ((), ())) for index in range(num_holes)), strict=True)
    return Draft(request_id, step, max_steps, texts, confidences)


def combine_canvas_fills(
    request_id: str, done: FillsByHole, holes: Sequence[Hole], limit: int, ms: float, *, complete: bool
) -> Iterator[FilledHoles]:
    """Combines the k-th best answers of all canvases, best first; a canvas with fewer gives its best.

    Later canvases have seen the best fills of the earlier ones. Holes past the last canvas keep their text, and so do
    those whose answers all repeat themselves or have half a character; if that is every hole, there is no candidate.
    """
    offered = {
        first: useful
        for first, fills in done.items()
        if (useful := [fill for fill in fills if not any(map(adds_repetition, fill.texts, holes[first:]))])
    }
    for rank in range(min(limit, max(map(len, offered.values()), default=0))):
        parts = {first: fills[rank if rank < len(fills) else 0] for first, fills in offered.items()}
        filled = set[int]()
        texts = [hole.text or hole.starts_with for hole in holes]
        token_texts: list[TokenTexts] = [((), ())] * len(holes)
        for first, part in parts.items():
            filled.update(range(first, first + len(part.texts)))
            texts[first : first + len(part.texts)] = part.texts
            token_texts[first : first + len(part.texts)] = part.token_texts
        for broken in (index for index in set(filled) if adds_broken_character(texts[index], holes[index])):
            texts[broken] = holes[broken].text or holes[broken].starts_with
            filled.remove(broken)
        if not filled:
            continue
        pieces, confidences = zip(*token_texts, strict=True)
        yield FilledHoles(
            request_id,
            texts=tuple(texts),
            score=sum(part.score for part in parts.values()) / len(parts),
            steps=sum(part.canvas.steps for part in parts.values()),
            tokens=sum(part.tokens for part in parts.values()),
            ms=ms,
            complete=complete,
            unfilled=tuple(index for index in range(len(holes)) if index not in filled),
            pieces=pieces,
            confidences=confidences,
        )
