"""Finds the places that no longer fit after a change, and their replacements, with a causal model.

Proposes small changes like the last one and judges each place in a diff that begins with the last change: is a change
of these lines likelier to come next than the lines unchanged? Likelihood and similarity together must reach a margin.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice

from inference.engine.loaded_model import LoadedModel
from inference.engine.next_edit import diff
from inference.engine.next_edit.adding import added
from inference.engine.next_edit.replacing import replaced
from inference.engine.next_edit.tokens import Proposal, code, is_calculation, lines_of
from inference.engine.work import Work
from inference.messages import Done, Edit, Hunk, NextEditRequest, NextEdits, Outcome
from inference.models.family import common_start

MARGIN, LIKENESS_NATS = 16.0, 10.0
"""How much likelier a change must be than none, in nats, counting a bonus for similarity to the changed place.

The smallest whole number with which no quiet case of the benchmark's tuning half gets an offer, after its first change
and where the syntax finds nothing. It passes 18 exact offers and 3 others; 13 would pass 34, 6, and 4 in quiet cases.
"""

_MOST_HUNKS, _MOST_PLACES, _MOST_TEXTS = 3, 6, 4
"""How many of the latest changes to use, how many places to judge (most alike first), and texts for each."""

_Event = NextEdits | Done


@dataclass(frozen=True)
class JudgedPlace:
    """Whole lines, and their possible replacements."""

    line: int
    end: int
    now: str
    texts: tuple[str, ...]
    likeness: tuple[float, ...]


class NextEditing(Work[_Event]):
    """The work on one request, as a generator: each step does at most one forward pass.

    It yields `NextEdits`, then Done. None is a step with nothing to report. Closing it stops the work.
    """

    def __init__(
        self, model: LoadedModel, request: NextEditRequest, deadline: float | None, margin: float = MARGIN
    ) -> None:
        """`deadline` is in seconds of `time.monotonic()`: the answer is whatever was found by then."""
        super().__init__(deadline)
        self._model = model
        self._request = request
        self._margin = margin
        self._lines = lines_of(request.text)

    def _work(self) -> Generator[_Event | None, None, None]:
        found: list[Edit] = []
        traits, hunks = self._model.traits, self._request.hunks
        if traits.fills_middle and traits.can_score and hunks:
            yield from self._judge(found)
        found.sort(key=lambda edit: -edit.score)
        yield NextEdits(self._request.id, tuple(found))
        outcome = Outcome.DEADLINE if self._late() else Outcome.COMPLETE
        yield Done(self._request.id, outcome, self._counters.stats())

    def _judge(self, found: list[Edit]) -> Iterator[None]:
        """Appends to `found` the edits worth offering, while there is time."""
        lines, vocabulary = self._lines, self._model.vocabulary
        like = list[Proposal]()
        for some in alike(lines, self._request):
            like += some
            yield None
        begun = vocabulary.encode(diff.changes(self._request.path, lines, self._request.hunks))
        for place in places(self._request, like):
            if self._late():
                break
            ids = [*begun, *vocabulary.encode(diff.place(lines, place.line, place.now))]
            texts = [vocabulary.encode(diff.text(lines, place.end, text)) for text in (place.now, *place.texts)]
            with closing(self._model.family.open(ids)) as context:
                if not (yield from self._encode(context, ids)):
                    break
                same, *changed = (float(each.sum()) for each in context.log_probabilities(texts))
            self._counters.steps += 1
            yield None
            likeliest = changed.index(max(changed))
            score = changed[likeliest] - same + LIKENESS_NATS * place.likeness[likeliest]
            if score >= self._margin:
                found.append(self._edit(place, place.texts[likeliest], score))

    def _edit(self, place: JudgedPlace, text: str, score: float) -> Edit:
        """The change within the lines, in whole words."""
        start = sum(map(len, self._lines[: place.line]))
        first = _whole_words(place.now, text, common_start(place.now, text))
        now = place.now[first:][::-1]
        new = text[first:][::-1]
        last = _whole_words(now, new, common_start(now, new))
        return Edit(start + first, start + len(place.now) - last, text[first : len(text) - last], score)


def alike(lines: Sequence[str], request: NextEditRequest) -> Iterator[list[Proposal]]:
    """Proposals like each of the latest changes, starting from the last."""
    for hunk in reversed(request.hunks[-_MOST_HUNKS:]):
        yield list(proposals(lines, hunk))


def places(request: NextEditRequest, like: Sequence[Proposal]) -> Iterator[JudgedPlace]:
    """The places to judge, most alike first, with the best texts for each."""
    found = best(like, request.hunks)
    order = {key: number for number, key in reversed(list(enumerate((one.line, one.end) for one in found)))}
    found.sort(key=lambda one: order[one.line, one.end])
    for _, same in islice(groupby(found, key=lambda one: (one.line, one.end)), _MOST_PLACES):
        every = list(same)
        likeness = {one.text: one.likeness for one in reversed(every)}
        texts = tuple(dict.fromkeys(one.text for one in every))[:_MOST_TEXTS]
        first = every[0]
        yield JudgedPlace(first.line, first.end, first.now, texts, tuple(likeness[text] for text in texts))


def _whole_words(now: str, new: str, same: int) -> int:
    """The length of the common prefix, without a partial word at its end."""
    if not any(text[same : same + 1].isalnum() or text[same : same + 1] == "_" for text in (now, new)):
        return same
    while same and (now[same - 1].isalnum() or now[same - 1] == "_"):
        same -= 1
    return same


_REACH_LINES = 300
"""How far from a change to look for similar places: searching takes time, and nobody waits for it."""


def proposals(lines: Sequence[str], hunk: Hunk) -> Iterator[Proposal]:
    """Possible changes near a change, like it. None after a change of a comment or of a number."""
    first = max(0, hunk.line - _REACH_LINES)
    near = lines[first : hunk.line + _REACH_LINES]
    moved = Hunk(hunk.line - first, hunk.old, hunk.new)
    if code(hunk.old) != code(hunk.new) and not is_calculation(hunk):
        for one in chain(replaced(near, moved), added(near, moved)):
            if code(one.text) != code(one.now):
                yield replace(one, line=one.line + first, end=one.end + first)


def best(found: Iterable[Proposal], hunks: Sequence[Hunk]) -> list[Proposal]:
    """Each proposal once, most alike first. Leaves out lines that have already changed."""
    taken = {line for hunk in hunks for line in range(hunk.line, hunk.line + hunk.new.count("\n"))}
    kept: dict[tuple[int, int, str], Proposal] = {}
    for one in found:
        if taken.isdisjoint(range(one.line, one.end)):
            known = kept.setdefault((one.line, one.end, one.text), one)
            if known.likeness < one.likeness:
                kept[one.line, one.end, one.text] = one
    return sorted(kept.values(), key=lambda one: -one.likeness)
