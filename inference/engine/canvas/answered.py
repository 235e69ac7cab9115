"""Puts the answers of a request's canvases together: candidates of all holes, drafts, and what typing leaves of them.

Knows nothing of how a canvas was filled: by the engine's own steps, or by a remote server.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from inference.engine.canvas import fills, repetition
from inference.engine.canvas.fills import Written
from inference.engine.canvas.plan import Group, Plan, Planner
from inference.engine.canvas.vocabulary import Vocabulary
from inference.messages import Candidate, Draft, Hole


@dataclass(frozen=True)
class RankedFill:
    """One candidate for the holes of one canvas."""

    texts: tuple[str, ...]
    score: float
    tokens: int
    number: int
    """Which of the canvases it was made of."""
    written: Written


HALF = "\ufffd"
"""What stands for bytes that are no whole character."""


class Filled(NamedTuple):
    """A canvas that is done: its holes, and its answers, best first."""

    group: Group
    found: list[RankedFill]


def flaws(answer: RankedFill) -> tuple[bool, bool, bool]:
    """What puts an answer behind the others: an empty hole, half a character, or that it repeats itself."""
    halved = any(HALF in text for text in answer.texts)
    return not all(answer.texts), halved, any(map(repetition.repeats, answer.texts))


def has_halves(text: str, hole: Hole) -> bool:
    """Whether a fill has half a character in it that the hole's own text has not."""
    return text.count(HALF) > (hole.text or hole.starts_with).count(HALF)


class Canvases:
    """The canvases of one request: those that are done, and what was typed while the next one is filled."""

    def __init__(self, planner: Planner) -> None:
        self.done: list[Filled] = []
        self.is_amended = False
        """Whether anything was typed since the present canvas was begun."""
        self._planner = planner
        self._typed: dict[int, str] = {}
        """What was typed since `go_on` was last asked, by the numbers of the holes."""

    @property
    def are_all(self) -> bool:
        """Whether they fill every hole."""
        return self._end == len(self._planner.request.holes)

    @property
    def has_news(self) -> bool:
        """Whether `go_on` is to be asked."""
        return bool(self._typed)

    def begin(self) -> tuple[Group, list[str]]:
        """The holes of the next canvas, and the best texts of all holes before them."""
        self._typed.clear()
        return self._planner.group_from(self._end), [text for canvas in self.done for text in canvas.found[0].texts]

    def pin(self, hole: int, text: str) -> None:
        """`text` now stands at the start of a hole. Raises RequestError where there is no such hole."""
        self._planner.pin_start(hole, text)
        self._typed[hole] = text
        self.is_amended = True

    def go_on(self, group: Group, earlier: Sequence[str], agrees: Callable[[int, str], bool]) -> bool:
        """Whether the current canvas agrees with what was typed. If it does, work on it continues.

        `agrees` takes a hole's number on this canvas and the text the hole must start with.
        """
        typed, self._typed = self._typed, {}
        for number, text in typed.items():
            if number < group.first and not earlier[number].startswith(text):
                return False
            if group.first <= number < group.end and not agrees(number - group.first, text):
                return False
        return True

    def add(self, group: Group, found: list[RankedFill]) -> None:
        """The present canvas is done; no answers: it was given up. From what disagrees with the user on, none is."""
        self.done.append(Filled(group, found))
        if self.is_amended:
            self.is_amended = False
            del self.done[self._still_good() :]

    def candidates(self, request_id: str, most: int, ms: float, *, complete: bool) -> Iterator[Candidate]:
        """What they come to, best first; nothing where none is done."""
        if self.done:
            yield from candidates(request_id, self.done, self._planner.request.holes, most, ms, complete=complete)

    @property
    def _end(self) -> int:
        return self.done[-1].group.end if self.done else 0

    def _still_good(self) -> int:
        """How many of those done begin with what was typed meanwhile; the others are filled again.

        Of those that do, the answers that do not are dropped; the best one has to, for later canvases have seen it.
        """
        for number, (group, found) in enumerate(self.done):
            agree = [agrees(each.texts, self._planner.request.holes[group.first : group.end]) for each in found]
            if not any(agree[:1]):
                return number
            found[:] = itertools.compress(found, agree)
        return len(self.done)


def agrees(texts: Sequence[str], holes: Sequence[Hole]) -> bool:
    """Whether each text begins as its hole must."""
    return all(text.startswith(hole.starts_with) for text, hole in zip(texts, holes, strict=True))


def candidates(
    request_id: str, canvases: Sequence[Filled], holes: Sequence[Hole], most: int, ms: float, *, complete: bool
) -> Iterator[Candidate]:
    """The k-th best canvases of all canvases together; a canvas with fewer gives its best.

    Later canvases have seen the best fills of the earlier ones, so the first candidate is the coherent one. There must
    be a canvas. Holes behind the last one are given as they stand, and so are those of a canvas all of whose answers
    repeat themselves, and those whose fill has half a character; where that are all holes, there is no candidate.
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
    """The answers without those that repeat themselves where what the user has there does not."""
    here = holes[group.first : group.end]

    def is_offered(answer: RankedFill) -> bool:
        return not any(
            repetition.repeats(text) and not repetition.repeats(hole.text or hole.starts_with)
            for text, hole in zip(answer.texts, here, strict=True)
        )

    return list(filter(is_offered, found))


def draft(
    vocabulary: Vocabulary,
    request_id: str,
    steps: tuple[int, int],
    shown: Written,
    plan: Plan,
    earlier: Sequence[str],
    holes: int,
) -> Draft:
    """One canvas as it stands; of the request's `holes`, earlier ones as filled, later ones still empty.

    `steps`: how many were taken, and how many there are at most.
    """
    here = [
        fills.pieces(vocabulary, shown.ids, shown.confidences, span, hole)
        for span, hole in zip(shown.spans, plan.layout.holes, strict=True)
    ]
    before = [((text,), (1.0,)) for text in earlier]
    after: list[tuple[tuple[str, ...], tuple[float, ...]]] = [((), ())]
    parts = [*before, *here, *after * (holes - plan.group.end)]
    return Draft(
        request_id,
        *steps,
        tuple(texts for texts, _ in parts),
        tuple(numbers for _, numbers in parts),
    )
