"""Works on one request with a causal model: hole after hole, each seeing the text of all others.

Each step makes at most one forward pass. Between two steps the worker can turn to another request, amend this one or
stop it.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from itertools import compress

from inference.engine.canvas import answered, repetition
from inference.engine.canvas.answered import Filled, RankedFill
from inference.engine.canvas.fills import Written
from inference.engine.canvas.plan import Group
from inference.engine.canvas.segments import text_and_holes
from inference.engine.loaded_model import LoadedModel
from inference.engine.middle import question
from inference.engine.middle.asking import REACHES, Asked, Asking, Reach
from inference.engine.middle.branch import Branch, End
from inference.engine.middle.branches import Branches
from inference.engine.middle.writer import Lookup, Writer
from inference.engine.work import Work
from inference.messages import MAX_CANDIDATES, Candidate, Done, Draft, InfillRequest, Outcome
from inference.models.family import Context, MiddleFamily

MiddleEvent = Draft | Candidate | Done
_READING_SHARE = 0.75
"""The share of the time until the deadline for reading."""
_SPARE = 3
"""How many alternatives to try if the likeliest text repeats itself."""


class MiddleInfilling(Work[MiddleEvent]):
    """The work on one request: drafts if requested, then the candidates, best first, then Done."""

    def __init__(
        self, model: LoadedModel, family: MiddleFamily, request: InfillRequest, deadline: float | None
    ) -> None:
        """`deadline` is in seconds of `time.monotonic()`. Raises RequestError if the request makes no sense."""
        super().__init__(deadline)
        self._model, self._family, self._request = model, family, request
        self._parts = text_and_holes(request)
        self._asking = Asking(model, family, request)
        self._wanted = 1 if request.quick else min(max(1, request.candidates), MAX_CANDIDATES)
        self._filled: dict[int, list[RankedFill]] = {}
        """The answers of each hole, best first, in filling order."""
        self._cut = False

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
        if count > 1 and self._wanted > 1 and len(self._filled) == count and not self._cut and not self._late():
            yield from self._vary()
            yield from self._fill_all()
        yield from self._candidates()
        outcome = Outcome.DEADLINE if self._cut or len(self._filled) < count else Outcome.COMPLETE
        yield Done(self._request.id, outcome, self._counters.stats())

    def _fill_all(self) -> Iterator[MiddleEvent | None]:
        """Fills the open holes in order. The first one gets at least one pass, however late it is."""
        count = len(self._parts.holes)
        while len(self._filled) < count and not self._cut and not (self._filled and self._late()):
            hole = next(number for number in range(count) if number not in self._filled)
            yield from self._fill(hole, self._wanted if count == 1 else 1)

    def _vary(self) -> Iterator[MiddleEvent | None]:
        """Writes alternatives for the hole where the model is least sure, now that all holes have texts."""
        open_holes = [number for number, hole in enumerate(self._parts.holes) if hole.strength > 0]
        number = min(open_holes, key=lambda each: self._filled[each][0].score, default=None)
        if number is None:
            return
        before = self._filled.pop(number)
        yield from self._fill(number, self._wanted)
        others = [] if self._cut else self._filled.get(number, [])
        self._filled[number] = [*before, *(each for each in others if each.texts != before[0].texts)]
        self._cut = False
        self._keep_agreeing()

    def _candidates(self) -> Iterator[Candidate]:
        holes, done = self._parts.holes, sorted(self._filled.items())
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
            ranked = [each.ranked(place, writer.passes) for place, each in enumerate(found)]
            ranked.sort(key=lambda each: (answered.flaws(each), each.number > 0, -each.score))
            self._filled[number] = ranked[:wanted]
            self._keep_agreeing()

    def _spare(self, branch: Branch, text: Sequence[int] | None) -> int:
        """How many texts to write beyond the wanted ones, in case one is the current text or useless."""
        if text is not None:
            return 1
        return 0 if self._request.quick or not repetition.repeats(branch.text) else _SPARE

    def _read(self, number: int, stack: ExitStack) -> Generator[None, None, tuple[Branch, list[int] | None, Context]]:
        """Reads the prompt of a hole and its given text; a shorter one where reading the whole would take too long.

        Returns the text as far as it is given, and the tokens of the hole's current text if it is reworked.
        """
        for reach in dict.fromkeys((self._reach(number), REACHES[-1])):
            branch, text = self._begun(number, reach)
            ids = [*branch.asked.prompt_ids, *branch.ids]
            context = stack.enter_context(closing(self._family.open(ids)))
            share, short = (None, len(ids)) if reach is REACHES[-1] else (_READING_SHARE, self._asking.short_tokens)
            if (yield from self._encode(context, ids, share=share, short_tokens=short)):
                break
            stack.pop_all().close()
        return branch, text, context

    def _reach(self, number: int) -> Reach:
        """The most that can be read in time, as far as the model's speed is known; else what is read the soonest."""
        unread: dict[Reach, int] = {}
        for reach in REACHES:
            begun = self._begun(number, reach)[0]
            ids = [*begun.asked.prompt_ids, *begun.ids]
            if self._request.quick and not unread and not self._can_read(len(ids)):
                self._family.read_later(self._asking.ahead(self._parts, number))
            unread[reach] = len(ids) - self._family.known_tokens(ids)
            if self._can_read(unread[reach]):
                return reach
        return min(unread, key=unread.__getitem__)

    def _can_read(self, tokens: int) -> bool:
        """Whether reading this many tokens would leave time to write."""
        ends_s = time.monotonic() + tokens * self._family.prompt_token_ms / 1000
        return not self._is_after(ends_s, _READING_SHARE)

    def _begun(self, number: int, reach: Reach) -> tuple[Branch, list[int] | None]:
        hole = self._parts.holes[number]
        asked = self._asking.of(self._parts, self._texts(), number, reach)
        if question.is_rewritten(hole) and asked.question is None:
            return standing(self._model, asked, hole.text)
        return Branch.given(self._model.vocabulary, asked), None

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
        """Appends alternatives, while there is time and the first is still right."""
        if self._cut:
            return
        for _ in branches.further(found, wanted):
            yield None
            if self._late() or not found[0].text.startswith(self._typed(number)):
                break

    def _typed(self, number: int) -> str:
        return self._parts.holes[number].starts_with

    def _texts(self) -> list[str]:
        """The text of each hole as far as known."""
        filled = self._filled
        return [filled[number][0].texts[0] if number in filled else "" for number in range(len(self._parts.holes))]

    def _draft(self, number: int, branch: Branch) -> Draft:
        """The current state of the hole in progress, the texts of filled holes, and nothing in the others."""
        known = {other: ((found[0].texts[0],), (found[0].written.confidence,)) for other, found in self._filled.items()}
        nothing: tuple[tuple[str, ...], tuple[float, ...]] = ((), ())
        here = branch.pieces(self._model.vocabulary)
        parts = [here if hole == number else known.get(hole, nothing) for hole in range(len(self._parts.holes))]
        most = sum(map(question.room, self._parts.holes))
        done = len(branch.choices) + sum(found[0].tokens for found in self._filled.values())
        return Draft(
            self._request.id,
            min(done, most),
            most,
            tuple(texts for texts, _ in parts),
            tuple(sure for _, sure in parts),
        )


def standing(model: LoadedModel, asked: Asked, text: str) -> tuple[Branch, list[int]]:
    """A hole with a current text: the branch before it, and the tokens to read behind that."""
    line = asked.given[: asked.skip]
    ids = model.vocabulary.encode(line.decode() + text)
    count = len(ids)
    while len(model.vocabulary.bytes_of(ids[:count])) > len(line):
        count -= 1
    here = replace(asked, given=line, room=max(asked.room, len(ids)))
    return Branch(here, ids[:count], count, model.vocabulary.bytes_of(ids[:count])), ids[count:]
