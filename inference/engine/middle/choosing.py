"""Chooses between several texts of each of a request's holes: those that make the whole region likeliest."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

from inference.engine.canvas import answered
from inference.engine.errors import RequestError
from inference.engine.middle import question
from inference.engine.middle.reading import MiddleEvent, MiddleReading
from inference.engine.middle.region import Region
from inference.engine.middle.writer import Writer

_CHOICE_TOKENS = 1_000
"""The most tokens to read in order to choose."""
_CHOICE_SHARE = 0.9
"""No pass of the choice begins after this share of the time until the deadline."""
_REGION_CHARACTERS = 2_000
"""With more pinned text than this between the holes, reading the region takes too long."""
_MARGIN = 1.0
"""How much likelier another text must make the region, in nats; less is chance."""


class MiddleChoosing(MiddleReading):
    """Reads the region with each text of a hole, within limits of tokens and time."""

    def _common_region(self) -> Region | None:
        """From the first hole to the last; None if that is too long, or with one hole, an instruction or a rework."""
        texts, holes = self._parts.texts, self._parts.holes
        if len(holes) == 1 or self._asking.chats or any(map(question.is_rewritten, holes)):
            return None
        kept = (hole.text for hole in holes if hole.strength == 0)
        if sum(map(len, (*texts[1:-1], *kept))) > _REGION_CHARACTERS:
            return None
        with suppress(RequestError):
            return Region(self._model, self._asking, self._parts)
        return None

    def _with_others(self) -> list[int]:
        """The holes with several texts, the least sure first."""
        several = [number for number, found in self._filled.items() if found[1:]]
        return sorted(several, key=lambda number: self._filled[number][0].score)

    def _choose(self, region: Region) -> Iterator[MiddleEvent | None]:
        """Puts those texts first that make the region likeliest, hole by hole, the least sure first."""
        with ExitStack() as stack:
            writer = (yield from self._region_writer(region, stack)) if self._with_others() else None
            if writer is None:
                return
            left = _CHOICE_TOKENS
            for number in self._with_others():
                if self._is_complete():
                    tokens = region.unread_tokens(number, self._texts(), len(self._filled[number]))
                    if tokens <= left and self._can_read(tokens):
                        left -= tokens
                        yield from self._likeliest(number, region, writer)
            self._counters.steps += writer.passes

    def _likeliest(self, number: int, region: Region, writer: Writer) -> Iterator[MiddleEvent | None]:
        """Sorts the texts of a hole by the likelihood of the region with each; the first stays unless one is clearly
        likelier.
        """
        texts, sums = self._texts(), dict[tuple[str, ...], float]()
        for each in list(self._filled[number]):
            fills = [*texts[:number], *each.texts, *texts[number + 1 :]]
            found = yield from region.log_likelihood(writer, fills, self._is_nearly_late)
            if found is None or not self._is_complete():
                return
            sums[each.texts] = found if sums else found + _MARGIN
        self._filled[number].sort(key=lambda each: (answered.flaws(each), -sums[each.texts]))
        yield self._draft() if self._request.drafts else None

    def _is_nearly_late(self) -> bool:
        """Whether another pass could miss the deadline."""
        return self._is_after(time.monotonic(), _CHOICE_SHARE)
