"""Combines the answers of a request's canvases: candidates for all holes, drafts, and the answers that agree with the
user's typing.

Does not know how a canvas was filled: by the engine's own steps, or by a remote server.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from inference.engine.canvas import fills, repetition
from inference.engine.canvas.fills import Written
from inference.engine.canvas.layout import Slots
from inference.engine.canvas.plan import Group, Plan, Planner
from inference.engine.canvas.vocabulary import Vocabulary
from inference.messages import Candidate, Draft, Hole


@dataclass(frozen=True)
class RankedFill:
    texts: tuple[str, ...]
    score: float
    tokens: int
    number: int
    """The number of its canvas."""
    written: Written


HALF = "\ufffd"
"""Replaces bytes that form no whole character."""


class Filled(NamedTuple):
    group: Group
    found: list[RankedFill]


def flaws(answer: RankedFill) -> tuple[bool, bool, bool]:
    """Reasons to rank an answer last: an empty hole, half a character, or repetition."""
    halved = any(HALF in text for text in answer.texts)
    return not all(answer.texts), halved, any(map(repetition.repeats, answer.texts))


def ranked(
    vocabulary: Vocabulary, holes: Sequence[Slots], written: Sequence[Written], scores: Sequence[float]
) -> list[RankedFill]:
    """The different answers for these holes, best first; last those with a flaw."""
    best: dict[tuple[str, ...], RankedFill] = {}
    for number in sorted(range(len(written)), key=lambda each: -scores[each]):
        one = written[number]
        found = fills.texts(vocabulary, one.ids, one.spans, holes)
        best.setdefault(found, RankedFill(found, scores[number], one.tokens, number, one))
    return sorted(best.values(), key=flaws)


def has_halves(text: str, hole: Hole) -> bool:
    """Whether a fill contains half a character that the hole's own text does not."""
    return text.count(HALF) > (hole.text or hole.starts_with).count(HALF)


def repeats(text: str, hole: Hole) -> bool:
    """Whether a fill repeats itself, unless the hole's own text does."""
    return repetition.repeats(text) and not repetition.repeats(hole.text or hole.starts_with)


class Canvases:
    """The canvases of one request: the finished ones, and the text typed while the next one is filled."""

    def __init__(self, planner: Planner) -> None:
        self.done: list[Filled] = []
        self.is_amended = False
        """Whether anything was typed since the current canvas began."""
        self._planner = planner
        self._typed: dict[int, str] = {}
        """The text typed since the last `go_on`, by hole number."""

    @property
    def are_all(self) -> bool:
        return self._end == len(self._planner.request.holes)

    @property
    def has_news(self) -> bool:
        """Whether to call `go_on`."""
        return bool(self._typed)

    def begin(self) -> tuple[Group, list[str]]:
        """The holes of the next canvas, and the best texts of all holes before them."""
        self._typed.clear()
        return self._planner.group_from(self._end), [text for canvas in self.done for text in canvas.found[0].texts]

    def pin(self, hole: int, text: str) -> None:
        """`text` is now at the start of a hole. Raises RequestError if there is no such hole."""
        self._planner.pin_start(hole, text)
        self._typed[hole] = text
        self.is_amended = True

    def go_on(self, group: Group, earlier: Sequence[str], agrees: Callable[[int, str], bool]) -> bool:
        """Whether the current canvas agrees with what was typed. If it does, work on it continues.

        `agrees` takes a hole's number on this canvas and the text the hole must start with.
        """
        typed = self._typed
        self._typed = {}
        for number, text in typed.items():
            if number < group.first and not earlier[number].startswith(text):
                return False
            if group.first <= number < group.end and not agrees(number - group.first, text):
                return False
        return True

    def add(self, group: Group, found: list[RankedFill]) -> None:
        """The current canvas is done; no answers: it was given up. Drops what disagrees with the user's typing."""
        self.done.append(Filled(group, found))
        if not self.is_amended:
            return
        self.is_amended = False
        for number, (here, answers) in enumerate(self.done):
            agree = [agrees(each.texts, self._planner.request.holes[here.first : here.end]) for each in answers]
            if not any(agree[:1]):
                del self.done[number:]
                return
            answers[:] = itertools.compress(answers, agree)

    def candidates(self, request_id: str, most: int, ms: float, *, complete: bool) -> Iterator[Candidate]:
        """The combined candidates, best first; empty if no canvas is done."""
        if self.done:
            yield from candidates(request_id, self.done, self._planner.request.holes, most, ms, complete=complete)

    @property
    def _end(self) -> int:
        return self.done[-1].group.end if self.done else 0


def agrees(texts: Sequence[str], holes: Sequence[Hole]) -> bool:
    return all(text.startswith(hole.starts_with) for text, hole in zip(texts, holes, strict=True))


def candidates(
    request_id: str, canvases: Sequence[Filled], holes: Sequence[Hole], most: int, ms: float, *, complete: bool
) -> Iterator[Candidate]:
    """Combines the k-th best answers of all canvases; a canvas with fewer gives its best. There must be a canvas.

    Later canvases have seen the best fills of the earlier ones. Holes past the last canvas keep their text, and so do
    those whose answers all repeat themselves or have half a character; if that is every hole, there is no candidate.
    """
    offered = [(group, _offered(group, found, holes)) for group, found in canvases]
    for number in range(min(most, max(len(found) for _, found in offered))):
        parts = {group.first: found[number if number < len(found) else 0] for group, found in offered if found}
        filled = {group.first + place for group, found in offered if found for place in range(group.end - group.first)}
        texts = [hole.text or hole.starts_with for hole in holes]
        for first, part in parts.items():
            texts[first : first + len(part.texts)] = part.texts
        for broken in (number for number in set(filled) if has_halves(texts[number], holes[number])):
            texts[broken] = holes[broken].text or holes[broken].starts_with
            filled.remove(broken)
        if not filled:
            continue
        yield Candidate(
            request_id,
            texts=tuple(texts),
            score=sum(part.score for part in parts.values()) / len(parts),
            steps=sum(part.written.steps for part in parts.values()),
            tokens=sum(part.tokens for part in parts.values()),
            ms=ms,
            complete=complete,
            unfilled=tuple(number for number in range(len(holes)) if number not in filled),
            confidence=sum(part.written.confidence for part in parts.values()) / len(parts),
        )


def _offered(group: Group, found: Sequence[RankedFill], holes: Sequence[Hole]) -> list[RankedFill]:
    """The answers without those that repeat themselves, unless the user's own text does."""
    here = holes[group.first : group.end]
    return [answer for answer in found if not any(map(repeats, answer.texts, here))]


def draft(
    vocabulary: Vocabulary,
    request_id: str,
    steps: tuple[int, int],
    shown: Written,
    plan: Plan,
    earlier: Sequence[str],
    holes: int,
) -> Draft:
    """One canvas of a request with so many `holes`, as it is now. `steps`: those taken, and the most there can be."""
    here = [
        fills.pieces(vocabulary, shown.ids, shown.confidences, span, hole)
        for span, hole in zip(shown.spans, plan.layout.holes, strict=True)
    ]
    before = [((text,), (1.0,)) for text in earlier]
    after: list[tuple[tuple[str, ...], tuple[float, ...]]] = [((), ())]
    parts = [*before, *here, *after * (holes - plan.group.end)]
    return Draft(request_id, *steps, tuple(texts for texts, _ in parts), tuple(numbers for _, numbers in parts))
