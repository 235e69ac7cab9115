"""Combines the answers of a request's canvases: candidates for all holes, and the answers that agree with the user's
typing.

Does not know how a canvas was filled: by the engine's own steps, or by a remote server.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from inference.engine.canvas import repetition
from inference.engine.canvas.layout import HoleLayout, HoleRows
from inference.engine.canvas.plan import CanvasPlanner
from inference.engine.canvas.vocabulary import LINE_BREAKS, Vocabulary
from inference.messages import Candidate, Hole

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
    def tokens(self) -> int:
        return sum(end - first for first, _, end in self.spans)

    @property
    def confidence(self) -> float:
        """The mean probability of the tokens that were not given; 1 if all were."""
        return fmean(self._open_confidences or [1.0])

    @property
    def log_confidence(self) -> float:
        """The mean of its logarithm."""
        return fmean(math.log(max(sure, _MIN_PROB)) for sure in self._open_confidences or [1.0])

    @property
    def _open_confidences(self) -> list[float]:
        return [self.confidences[row] for _, first, end in self.spans for row in range(first, end)]

    def texts(self, vocabulary: Vocabulary, holes: Sequence[HoleLayout]) -> tuple[str, ...]:
        """The texts of the holes, without the bytes that healing moved into them."""
        found = (
            b"".join(self.hole_bytes(vocabulary, number, hole))[hole.healed_bytes :]
            for number, hole in enumerate(holes)
        )
        return tuple(text.decode("utf-8", errors="replace") for text in found)

    def hole_bytes(self, vocabulary: Vocabulary, number: int, hole: HoleLayout) -> list[bytes]:
        """The bytes of a hole's rows, the healed ones too; a line break ends a single-line hole in mid-token."""
        first, _, end = self.spans[number]
        found = list[bytes]()
        before = 0
        for id_ in self.ids[first:end]:
            value = vocabulary.bytes_of([id_])
            at = max(0, hole.forced_bytes - before)
            ends = [place for mark in LINE_BREAKS if (place := value.find(mark, at)) >= 0] if hole.single_line else []
            found.append(value[: min(ends)] if ends else value)
            if ends:
                break
            before += len(value)
        return found

    def token_texts(
        self, vocabulary: Vocabulary, number: int, hole: HoleLayout
    ) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """The current text of one hole: a text per token, whole characters only, and the confidence of each.

        Tokens that hold half a character join the next one.
        """
        skip = hole.healed_bytes
        pending = b""
        lowest = 1.0
        found: list[tuple[str, float]] = []
        for row, value in enumerate(self.hole_bytes(vocabulary, number, hole), self.spans[number][0]):
            skip, value = max(0, skip - len(value)), value[skip:]
            pending = pending + value
            lowest = min(lowest, self.confidences[row])
            text = pending.decode("utf-8", errors="ignore")
            if text and text.encode() == pending:
                found.append((text, lowest))
                pending = b""
                lowest = 1.0
        return tuple(text for text, _ in found), tuple(confidence for _, confidence in found)


@dataclass(frozen=True)
class RankedFill:
    texts: tuple[str, ...]
    score: float
    tokens: int
    index: int
    """The number of its canvas."""
    canvas: FilledCanvas


class CanvasResult(NamedTuple):
    group: range
    fills: list[RankedFill]


def flaws(answer: RankedFill) -> tuple[bool, bool, bool]:
    """Reasons to rank an answer last: an empty hole, half a character, or repetition."""
    halved = any(REPLACEMENT_CHARACTER in text for text in answer.texts)
    return not all(answer.texts), halved, any(map(repetition.is_repetitive, answer.texts))


def rank_fills(
    vocabulary: Vocabulary, holes: Sequence[HoleLayout], written: Sequence[FilledCanvas], scores: Sequence[float]
) -> list[RankedFill]:
    """The different answers for these holes, best first; last those with a flaw."""
    best: dict[tuple[str, ...], RankedFill] = {}
    for number in sorted(range(len(written)), key=lambda each: -scores[each]):
        one = written[number]
        found = one.texts(vocabulary, holes)
        best.setdefault(found, RankedFill(found, scores[number], one.tokens, number, one))
    return sorted(best.values(), key=flaws)


def has_broken_character(text: str, hole: Hole) -> bool:
    """Whether a fill contains half a character that the hole's own text does not."""
    return text.count(REPLACEMENT_CHARACTER) > (hole.text or hole.starts_with).count(REPLACEMENT_CHARACTER)


def is_repetitive(text: str, hole: Hole) -> bool:
    """Whether a fill repeats itself, unless the hole's own text does."""
    return repetition.is_repetitive(text) and not repetition.is_repetitive(hole.text or hole.starts_with)


class CanvasProgress:
    """The canvases of one request: the finished ones, and the text typed while the next one is filled."""

    def __init__(self, planner: CanvasPlanner) -> None:
        self.done: list[CanvasResult] = []
        self.is_amended = False
        """Whether anything was typed since the current canvas began."""
        self._planner = planner
        self._typed: dict[int, str] = {}
        """The text typed since the last `apply_typed_text`, by hole number."""

    @property
    def is_complete(self) -> bool:
        return self._end == len(self._planner.request.holes)

    @property
    def has_typed_text(self) -> bool:
        """Whether to call `apply_typed_text`."""
        return bool(self._typed)

    def begin(self) -> tuple[range, list[str]]:
        """The holes of the next canvas, and the best texts of all holes before them."""
        self._typed.clear()
        return self._planner.group_from(self._end), [text for canvas in self.done for text in canvas.fills[0].texts]

    def pin(self, hole: int, text: str) -> None:
        """`text` is now at the start of a hole. Raises RequestError if there is no such hole."""
        self._planner.pin_start(hole, text)
        self._typed[hole] = text
        self.is_amended = True

    def apply_typed_text(self, group: range, earlier: Sequence[str], agrees: Callable[[int, str], bool]) -> bool:
        """Whether the current canvas agrees with what was typed. If it does, work on it continues.

        `agrees` takes a hole's number on this canvas and the text the hole must start with.
        """
        typed = self._typed
        self._typed = {}
        for number, text in typed.items():
            if number < group.start and not earlier[number].startswith(text):
                return False
            if group.start <= number < group.stop and not agrees(number - group.start, text):
                return False
        return True

    def add(self, group: range, found: list[RankedFill]) -> None:
        """The current canvas is done; no answers: it was given up. Drops what disagrees with the user's typing."""
        self.done.append(CanvasResult(group, found))
        if self.is_amended:
            self.is_amended = False
            self.done = keep_matching(self.done, self._planner.request.holes)

    @property
    def _end(self) -> int:
        return self.done[-1].group.stop if self.done else 0


def matches_typed_text(texts: Sequence[str], holes: Sequence[Hole]) -> bool:
    return all(text.startswith(hole.starts_with) for text, hole in zip(texts, holes, strict=True))


def keep_matching(done: Iterable[CanvasResult], holes: Sequence[Hole]) -> list[CanvasResult]:
    """The canvases before the first whose best answer disagrees with what was typed, with the answers that agree."""
    kept = []
    for group, answers in done:
        found = [each for each in answers if matches_typed_text(each.texts, holes[group.start : group.stop])]
        if not found or found[0] is not answers[0]:
            break
        kept.append(CanvasResult(group, found))
    return kept


def candidates(
    request_id: str, canvases: Sequence[CanvasResult], holes: Sequence[Hole], most: int, ms: float, *, complete: bool
) -> Iterator[Candidate]:
    """Combines the k-th best answers of all canvases, best first; a canvas with fewer gives its best.

    Later canvases have seen the best fills of the earlier ones. Holes past the last canvas keep their text, and so do
    those whose answers all repeat themselves or have half a character; if that is every hole, there is no candidate.
    """
    offered = [(group, _without_repetitive(group, found, holes)) for group, found in canvases]
    for number in range(min(most, max((len(found) for _, found in offered), default=0))):
        parts = {group.start: found[number if number < len(found) else 0] for group, found in offered if found}
        filled = {hole for group, found in offered if found for hole in group}
        texts = [hole.text or hole.starts_with for hole in holes]
        for first, part in parts.items():
            texts[first : first + len(part.texts)] = part.texts
        for broken in (number for number in set(filled) if has_broken_character(texts[number], holes[number])):
            texts[broken] = holes[broken].text or holes[broken].starts_with
            filled.remove(broken)
        if not filled:
            continue
        yield Candidate(
            request_id,
            texts=tuple(texts),
            score=sum(part.score for part in parts.values()) / len(parts),
            steps=sum(part.canvas.steps for part in parts.values()),
            tokens=sum(part.tokens for part in parts.values()),
            ms=ms,
            complete=complete,
            unfilled=tuple(number for number in range(len(holes)) if number not in filled),
            confidence=sum(part.canvas.confidence for part in parts.values()) / len(parts),
        )


def _without_repetitive(group: range, found: Sequence[RankedFill], holes: Sequence[Hole]) -> list[RankedFill]:
    """The answers without those that repeat themselves, unless the user's own text does."""
    here = holes[group.start : group.stop]
    return [answer for answer in found if not any(map(is_repetitive, answer.texts, here))]
