"""Puts the answers of a request's canvases together: candidates of all holes, drafts, and what typing leaves of them.

Knows nothing of how a canvas was filled: by the engine's own steps, or by somebody else's server.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from inference.engine.canvas import fills, repetition
from inference.engine.canvas.fills import Written
from inference.engine.canvas.plan import Group, Plan
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


class Filled(NamedTuple):
    """A canvas that is done: its holes, and its answers, best first."""

    group: Group
    found: list[RankedFill]


def end(canvases: Sequence[Filled]) -> int:
    """The number of the first hole that these do not fill."""
    return canvases[-1].group.end if canvases else 0


def flaws(answer: RankedFill) -> tuple[bool, bool, bool]:
    """What puts an answer behind the others: an empty hole, half a character, or that it repeats itself."""
    halved = any("\ufffd" in text for text in answer.texts)
    return not all(answer.texts), halved, any(map(repetition.repeats, answer.texts))


def still_good(canvases: Sequence[Filled], holes: Sequence[Hole]) -> int:
    """How many of the canvases done so far begin as what was typed meanwhile; what follows is done anew.

    Of those that do, the answers that do not are dropped; the best one has to, for later canvases have seen it.
    """
    for done, (group, found) in enumerate(canvases):
        agree = [agrees(each.texts, holes[group.first : group.end]) for each in found]
        if not agree[0]:
            return done
        found[:] = itertools.compress(found, agree)
    return len(canvases)


def agrees(texts: Sequence[str], holes: Sequence[Hole]) -> bool:
    """Whether each text begins as its hole must."""
    return all(text.startswith(hole.starts_with) for text, hole in zip(texts, holes, strict=True))


def candidates(
    request_id: str, canvases: Sequence[Filled], holes: Sequence[Hole], most: int, ms: float, *, complete: bool
) -> Iterator[Candidate]:
    """The k-th best canvases of all canvases together; a canvas with fewer gives its best.

    Later canvases have seen the best fills of the earlier ones, so the first candidate is the coherent one. There must
    be a canvas. Holes behind the last one are given as they stand, and so are those of a canvas all of whose answers
    repeat themselves; where that are all holes, there is no candidate.
    """
    offered = [(group, _offered(group, found, holes)) for group, found in canvases]
    for number in range(min(most, max(len(found) for _, found in offered))):
        parts = {group.first: found[number if number < len(found) else 0] for group, found in offered if found}
        filled = {group.first + place for group, found in offered if found for place in range(group.end - group.first)}
        texts = [hole.text or hole.starts_with for hole in holes]
        for first, part in parts.items():
            texts[first : first + len(part.texts)] = part.texts
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
