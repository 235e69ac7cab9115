"""Works on one request with a causal model: hole after hole, each seeing the text of all others.

Each of several holes gets several texts; then it picks those that make the whole region likeliest.

Each step makes at most one forward pass. Between two steps the worker can turn to another request, amend this one or
stop it.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from itertools import compress

from inference.engine.canvas import answered, repetition
from inference.engine.canvas.answered import Filled, RankedFill
from inference.engine.canvas.fills import Written
from inference.engine.canvas.plan import Group
from inference.engine.loaded_model import LoadedModel
from inference.engine.middle.branch import Branch, End
from inference.engine.middle.branches import Branches
from inference.engine.middle.choosing import MiddleChoosing
from inference.engine.middle.reading import MiddleEvent
from inference.engine.middle.writer import Lookup, Writer
from inference.messages import MAX_CANDIDATES, Candidate, Done, InfillRequest, Outcome
from inference.models.family import MiddleFamily

_TEXTS = 3
"""How many texts to choose from for each of several holes."""
_TEXTS_SHARE = 0.5
"""Writing them may take this share of the time until the deadline, divided equally among the holes."""
_SPARE = 3
"""How many alternatives to try if the likeliest text is blank or repeats itself."""


class MiddleInfilling(MiddleChoosing):
    """The work on one request: drafts if requested, then the candidates, best first, then Done."""

    def __init__(
        self, model: LoadedModel, family: MiddleFamily, request: InfillRequest, deadline: float | None
    ) -> None:
        """`deadline` is in seconds of `time.monotonic()`. Raises RequestError if the request makes no sense."""
        super().__init__(model, family, request, deadline)
        self._wanted = 1 if request.quick else min(max(1, request.candidates), MAX_CANDIDATES)
        self._region = None if request.quick else self._common_region()

    def amend(self, hole: int, text: str) -> None:
        """Pins `text`, the whole text now at the start of a hole, before the next step. Raises RequestError."""
        self._parts = self._parts.pinned(hole, text)
        self._keep_agreeing()

    def _keep_agreeing(self) -> None:
        """Drops the answers that disagree with the typed text, and those made after a hole whose best answer does."""
        for place, (hole, found) in enumerate(self._filled.items()):
            agree = [answered.agrees(each.texts, self._parts.holes[hole : hole + 1]) for each in found]
            if not agree[0]:
                self._filled = dict(list(self._filled.items())[:place])
                return
            found[:] = compress(found, agree)

    def _work(self) -> Generator[MiddleEvent | None, None, None]:
        count = len(self._parts.holes)
        yield from self._fill_all()
        if count > 1 and self._is_complete():
            yield from self._choose(self._region) if self._region else self._vary()
            yield from self._fill_all()
        yield from self._candidates()
        outcome = Outcome.DEADLINE if self._cut or len(self._filled) < count else Outcome.COMPLETE
        yield Done(self._request.id, outcome, self._counters.stats())

    def _fill_all(self) -> Iterator[MiddleEvent | None]:
        """Fills the open holes in order. The first one gets at least one pass, however late it is."""
        count = len(self._parts.holes)
        wanted = self._wanted if count == 1 else max(_TEXTS, self._wanted) if self._region else 1
        while len(self._filled) < count and not self._cut and not (self._filled and self._late()):
            hole = next(number for number in range(count) if number not in self._filled)
            yield from self._fill(hole, wanted)

    def _vary(self) -> Iterator[MiddleEvent | None]:
        """Writes alternatives for the hole where the model is least sure, now that all holes have texts."""
        open_holes = [number for number, hole in enumerate(self._parts.holes) if hole.strength > 0]
        if not open_holes or self._wanted == 1:
            return
        number = min(open_holes, key=lambda each: self._filled[each][0].score)
        before = self._filled.pop(number)
        yield from self._fill(number, self._wanted)
        others = [] if self._cut else self._filled.get(number, [])
        self._filled[number] = [*before, *(each for each in others if each.texts != before[0].texts)]
        self._cut = False
        self._keep_agreeing()

    def _candidates(self) -> Iterator[Candidate]:
        holes, done = self._parts.holes, sorted(self._filled.items())
        for number in self._with_others()[1:]:  # combined with each other, other texts need not fit together
            del self._filled[number][1:]
        canvases = [Filled(Group(number, number + 1), found) for number, found in done if any(found[0].texts)]
        if canvases:
            complete = not self._cut and len(done) == len(holes)
            ms = self._counters.ms()
            yield from answered.candidates(self._request.id, canvases, holes, self._wanted, ms, complete=complete)

    def _fill(self, number: int, wanted: int) -> Iterator[MiddleEvent | None]:
        """The answers of one hole, surrounded by the text of the others."""
        hole = self._parts.holes[number]
        if hole.strength == 0:
            self._filled[number] = [RankedFill((hole.text,), 0.0, 0, 0, Written([], [], (), 0))]
            return
        self._counters.canvases += 1
        with ExitStack() as stack:
            branch, text, context = yield from self._read(number, stack)
            lookup = Lookup(branch.asked.prompt_ids)
            writer = Writer(self._model, self._family, context, branch.forced, lookup)
            branches = Branches(writer, lookup)
            begin = self._write(number, branch, writer) if text is None else self._rework(number, branch, text, writer)
            first = yield from begin
            branches.add(branch, first=first)
            found = [branch]
            if branch.end is not None:
                yield from self._further(number, branches, found, wanted + self._spare(branch, text))
            self._counters.steps += writer.passes
        if text is not None:
            found = sorted(found[1:], key=lambda each: -each.score) or found
        if found[0].end is not None:
            found = [each for each in found if each.text.strip()] or found
            ranked = [each.ranked(place, writer.passes) for place, each in enumerate(found)]
            ranked.sort(key=lambda each: (answered.flaws(each), each.number > 0, -each.score))
            self._filled[number] = ranked[:wanted]
            self._keep_agreeing()

    def _spare(self, branch: Branch, text: Sequence[int] | None) -> int:
        """How many texts to write beyond the wanted ones, in case one is the current text or useless."""
        if text is not None:
            return 1
        is_useless = not branch.text.strip() or repetition.repeats(branch.text)
        return _SPARE if is_useless and not self._request.quick else 0

    def _write(self, number: int, branch: Branch, writer: Writer) -> Generator[MiddleEvent | None, None, int]:
        """The likeliest text; follows what is typed meanwhile. Left without an end if it disagrees."""
        typed = self._typed(number)
        while branch.end is None:
            writer.step(branch)
            yield self._draft(number, branch) if self._request.drafts else None
            if typed != self._typed(number):
                typed = self._typed(number)
                if not branch.typed(typed):
                    branch.end = None
                    break
            if branch.end is None and self._late():
                branch.stop(End.LATE)
                self._cut = True
        return 0

    def _rework(
        self, number: int, branch: Branch, text: Sequence[int], writer: Writer
    ) -> Generator[MiddleEvent | None, None, int]:
        """Reads the current text; alternatives keep its first (1 - strength) * n tokens. Returns how many those are."""
        for _ in writer.read(branch, text):
            yield None
        branch.end = End.TEXT
        return int((1 - self._parts.holes[number].strength) * len(text))

    def _further(
        self, number: int, branches: Branches, found: list[Branch], wanted: int
    ) -> Iterator[MiddleEvent | None]:
        """Appends alternatives, while there is time and the first is still right. Several holes share the time, but
        each gets a text that is not blank.
        """
        if self._cut:
            return
        share = _TEXTS_SHARE * (len(self._filled) + 1) / len(self._parts.holes) if self._region else 1.0
        for _ in branches.further(found, wanted):
            yield None
            is_over = self._is_after(time.monotonic(), share) and any(each.text.strip() for each in found)
            if is_over or self._late() or not found[0].text.startswith(self._typed(number)):
                break

    def _typed(self, number: int) -> str:
        return self._parts.holes[number].starts_with
