"""Reads the prompt of a hole: as much of what stands around it as there is time for."""

import time
from collections.abc import Generator
from contextlib import ExitStack, closing

from inference.engine.canvas.answered import RankedFill
from inference.engine.canvas.segments import text_and_holes
from inference.engine.loaded_model import LoadedModel
from inference.engine.middle import question
from inference.engine.middle.asking import REACHES, Asking, Reach
from inference.engine.middle.branch import Branch
from inference.engine.middle.region import Region
from inference.engine.middle.writer import Writer
from inference.engine.work import Work
from inference.messages import Candidate, Done, Draft, InfillRequest
from inference.models.family import Context, MiddleFamily

MiddleEvent = Draft | Candidate | Done
_SHARE = 0.75
"""The share of the time until the deadline for reading."""


class MiddleReading(Work[MiddleEvent]):
    """The holes of one request, their texts so far, and the prompts for them."""

    def __init__(
        self, model: LoadedModel, family: MiddleFamily, request: InfillRequest, deadline: float | None
    ) -> None:
        """`deadline` is in seconds of `time.monotonic()`. Raises RequestError if the request makes no sense."""
        super().__init__(deadline)
        self._model, self._family, self._request = model, family, request
        self._parts = text_and_holes(request)
        self._asking = Asking(model, family, request)
        self._filled: dict[int, list[RankedFill]] = {}
        """The answers of each hole, best first, in filling order."""
        self._cut = False
        """Whether the deadline cut a text short."""

    def _read(self, number: int, stack: ExitStack) -> Generator[None, None, tuple[Branch, list[int] | None, Context]]:
        """Reads the prompt of a hole and its given text; a shorter one where reading the whole would take too long.

        Returns the text as far as it is given, and the tokens of the hole's current text if it is reworked.
        """
        for reach in dict.fromkeys((self._reach(number), REACHES[-1])):
            branch, text = self._begun(number, reach)
            ids = [*branch.asked.prompt_ids, *branch.ids]
            context = stack.enter_context(closing(self._family.open(ids)))
            share, short = (None, len(ids)) if reach is REACHES[-1] else (_SHARE, self._asking.short_tokens)
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
        return not self._is_after(ends_s, _SHARE)

    def _begun(self, number: int, reach: Reach) -> tuple[Branch, list[int] | None]:
        hole = self._parts.holes[number]
        asked = self._asking.of(self._parts, self._texts(), number, reach)
        if question.is_rewritten(hole) and asked.question is None:
            return Branch.standing(self._model.vocabulary, asked, hole.text)
        return Branch.given(self._model.vocabulary, asked), None

    def _region_writer(self, region: Region, stack: ExitStack) -> Generator[None, None, Writer | None]:
        """A writer that has read what surrounds the region; None if there is no time for that."""
        ids = region.asked.prompt_ids
        if not self._can_read(len(ids) - self._family.known_tokens(ids)):
            return None
        context = stack.enter_context(closing(self._family.open(ids)))
        is_read = yield from self._encode(context, ids, share=_SHARE, short_tokens=0)
        return Writer(self._model, self._family, context, 0, None) if is_read else None

    def _texts(self) -> list[str]:
        """The text of each hole as far as known."""
        filled = self._filled
        return [filled[number][0].texts[0] if number in filled else "" for number in range(len(self._parts.holes))]

    def _is_complete(self) -> bool:
        """Whether every hole has a text and there is time for more."""
        return len(self._filled) == len(self._parts.holes) and not self._cut and not self._late()

    def _draft(self, number: int | None = None, branch: Branch | None = None) -> Draft:
        """The current state of the hole in progress, the texts of filled holes, and nothing in the others."""
        known = {other: ((found[0].texts[0],), (found[0].written.confidence,)) for other, found in self._filled.items()}
        nothing: tuple[tuple[str, ...], tuple[float, ...]] = ((), ())
        here = branch.pieces(self._model.vocabulary) if branch else nothing
        parts = [here if hole == number else known.get(hole, nothing) for hole in range(len(self._parts.holes))]
        most = sum(map(question.room, self._parts.holes))
        done = (len(branch.choices) if branch else 0) + sum(found[0].tokens for found in self._filled.values())
        return Draft(
            self._request.id,
            min(done, most),
            most,
            tuple(texts for texts, _ in parts),
            tuple(sure for _, sure in parts),
        )
