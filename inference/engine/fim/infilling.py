"""Works on one request with a causal model: hole after hole, each seeing the text of all others.

Each hole's prompt is read (prefill), as much of what stands around it as there is time for, and its texts are decoded.
Each of several holes gets several texts; then those are picked that make the whole region likeliest (rerank).

Each step makes at most one forward pass. Between two steps the worker can turn to another request, amend this one or
stop it.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace

from inference.deadline import Deadline
from inference.engine.canvas import repetition, results
from inference.engine.canvas.plan import TextAndHoles, text_and_holes
from inference.engine.canvas.results import CanvasResult, FilledCanvas, RankedFill
from inference.engine.errors import RequestError
from inference.engine.fim import query
from inference.engine.fim.decode import Branch, Decoder, PromptLookup
from inference.engine.fim.prompt import MIN_WINDOW, PromptBuilder, PromptWindow
from inference.engine.loaded_model import LoadedModel
from inference.engine.work import RequestRun
from inference.messages import MAX_CANDIDATES, Candidate, Done, Draft, Hole, InfillRequest, Outcome
from inference.models.family import FimPrefixHandle, common_start

FimEvent = Draft | Candidate | Done
_PREFILL_SHARE = 0.75
"""The share of the time until the deadline for reading."""
_TEXTS_PER_HOLE = 3
"""How many texts to choose from for each of several holes."""
_TEXTS_SHARE = 0.5
"""Writing them may take this share of the time until the deadline, divided equally among the holes."""
_MAX_RETRIES = 3
"""How many alternatives to try if the likeliest text is blank or repeats itself."""

_SENTENCES_SHARE = 0.15
"""Alternatives to a blank or repeated text, or one in a comment or docstring, may take until this share of the time:
they may be long sentences, and the user waits for all of them.
"""
_MAX_RERANK_TOKENS = 1_000
"""The most tokens to read in order to choose."""
_RERANK_SHARE = 0.9
"""No pass of the choice begins after this share of the time until the deadline."""
_MAX_REGION_CHARS = 2_000
"""With more pinned text than this between the holes, reading the region takes too long."""
_ATTEMPTS = 2
"""How often to fill each hole, on average, between two amendments."""
_RERANK_MARGIN_NATS = 1.0
"""How much likelier another text must make the region, in nats; less is chance."""


class Region:
    """The likelihood of everything from a request's first hole to its last, which decides between texts of its holes.

    All that is one long fill, between the text in front of the first hole and the text behind the last."""

    def __init__(self, model: LoadedModel, prompts: PromptBuilder, parts: TextAndHoles) -> None:
        """Raises RequestError if the model cannot read all of it."""
        self._vocabulary = model.vocabulary
        self._inner = [*parts.texts[1:-1], ""]
        kept = self._inside([hole.text if hole.strength == 0 else "" for hole in parts.holes])
        most = query.estimate_tokens(kept) + sum(map(query.max_new_tokens, parts.holes))
        around = TextAndHoles((parts.texts[0], parts.texts[-1]), (Hole(max_tokens=most),))
        self.prompt = prompts.build(around, ("",), 0)
        self._last = Branch(self.prompt, [], 0, b"")

    def unread_tokens(self, number: int, fills: Sequence[str], texts: int) -> int:
        """How many tokens to read in order to know the likelihood with so many texts for one hole."""
        new = 0 if self._last.ids else len(self._vocabulary.encode(self._inside(fills)))
        return new + texts * len(self._vocabulary.encode(self._inside(fills, number)))

    def log_likelihood(
        self, decoder: Decoder, fills: Sequence[str], is_late: Callable[[], bool] = lambda: False
    ) -> Generator[None, None, float | None]:
        """The log-probability of the region with these fills, and of its end; None if time runs out first.

        Each `next` is a forward pass. `decoder` has read the prompt of `prompt`. The start that the region shares with
        the last one is not read again. The text in front of the first hole counts, too: how it becomes tokens depends
        on what follows.
        """
        ids = self._vocabulary.encode(self.prompt.forced.decode() + self._inside(fills))
        branch = self._last.truncated(self._vocabulary, common_start(self._last.ids, ids))
        branch.prompt = replace(self.prompt, max_new_tokens=max(self.prompt.max_new_tokens, len(ids)))
        for _ in decoder.append_forced(branch, ids[len(branch.ids) :]):
            yield
            if is_late():
                return None
        self._last = branch
        end = decoder.end_logprob(branch)
        yield
        return branch.total_logprob + end

    def _inside(self, fills: Sequence[str], first: int = 0) -> str:
        return "".join(fill + text for fill, text in zip(fills[first:], self._inner[first:], strict=True))


class FimRun(RequestRun[FimEvent]):
    """The work on one request: drafts if requested, then the candidates, best first, then Done."""

    def __init__(self, model: LoadedModel, request: InfillRequest, deadline: Deadline | None) -> None:
        """Raises RequestError if the request makes no sense."""
        super().__init__(deadline)
        self._model = model
        self._family = model.fim
        self._request = request
        self._parts = text_and_holes(request)
        self._prompts = PromptBuilder(model, request)
        self._filled: dict[int, list[RankedFill]] = {}
        """The answers of each hole, best first, in filling order."""
        self._was_cut = False
        """Whether the deadline cut a text short."""
        self._attempts = 0
        """How many holes were filled, again or not, since the last amendment that came in time."""
        self._wanted = 1 if request.quick else min(max(1, request.candidates), MAX_CANDIDATES)
        self._region = None if request.quick else self._common_region()

    def amend(self, hole: int, text: str) -> None:
        """Pins `text`, the whole text now at the start of a hole, before the next step. Raises RequestError."""
        self._parts = self._parts.with_pinned(hole, text)
        self._attempts = self._attempts if self._is_late() else 0
        self._drop_mismatches()

    def _drop_mismatches(self) -> None:
        """Drops the answers that disagree with the typed text, and those made after a hole whose best answer does."""
        done = (CanvasResult(range(hole, hole + 1), found) for hole, found in self._filled.items())
        self._filled = {group.start: found for group, found in results.keep_matching(done, self._parts.holes)}

    def _run(self) -> Generator[FimEvent | None, None, None]:
        count = len(self._parts.holes)
        yield from self._fill_all()
        if count > 1 and self._is_complete():
            yield from self._rerank(self._region) if self._region else self._vary()
            yield from self._fill_all()
        yield from self._candidates()
        outcome = Outcome.DEADLINE if self._was_cut or len(self._filled) < count else Outcome.COMPLETE
        yield Done(self._request.id, outcome, self._counters.stats())

    def _fill_all(self) -> Iterator[FimEvent | None]:
        """Fills the open holes in order. The first one gets at least one pass, however late it is.

        Answers that disagree with what is typed are dropped and made again, but not for ever.
        """
        count = len(self._parts.holes)
        wanted = self._wanted if count == 1 else max(_TEXTS_PER_HOLE, self._wanted) if self._region else 1
        while len(self._filled) < count and not self._was_cut and not (self._filled and self._is_late()):
            if self._attempts > _ATTEMPTS * count:
                break
            self._attempts += 1
            hole = next(number for number in range(count) if number not in self._filled)
            yield from self._fill(hole, wanted)

    def _vary(self) -> Iterator[FimEvent | None]:
        """Writes alternatives for the hole where the model is least sure, now that all holes have texts."""
        open_holes = [number for number, hole in enumerate(self._parts.holes) if hole.strength > 0]
        if not open_holes or self._wanted == 1:
            return
        number = min(open_holes, key=lambda each: self._filled[each][0].score)
        before = self._filled.pop(number)
        yield from self._fill(number, self._wanted)
        others = [] if self._was_cut else self._filled.get(number, [])
        self._filled[number] = [*before, *(each for each in others if each.texts != before[0].texts)]
        self._was_cut = False
        self._drop_mismatches()

    def _candidates(self) -> Iterator[Candidate]:
        holes = self._parts.holes
        done = sorted(self._filled.items())
        for number in self._holes_with_alternatives()[1:]:  # combined, other texts need not fit together
            del self._filled[number][1:]
        canvases = [CanvasResult(range(number, number + 1), found) for number, found in done if any(found[0].texts)]
        complete = not self._was_cut and len(done) == len(holes)
        ms = self._counters.ms()
        yield from results.candidates(self._request.id, canvases, holes, self._wanted, ms, complete=complete)

    def _fill(self, number: int, wanted: int) -> Iterator[FimEvent | None]:
        """The answers of one hole, surrounded by the text of the others."""
        hole = self._parts.holes[number]
        if hole.strength == 0:
            self._filled[number] = [_unchanged(hole)]
            return
        self._counters.canvases += 1
        with ExitStack() as stack:
            branch, text, context, before = yield from self._prefill(number, stack)
            decoder = Decoder(self._model, context, branch.forced, PromptLookup(branch.prompt.ids, before))
            first = 0
            spare = 0
            if text is None:
                yield from self._write(number, branch, decoder)
                is_useless = not branch.text.strip() or repetition.is_repetitive(branch.text)
                spare = _MAX_RETRIES if is_useless and not self._request.quick else 0
            else:
                for _ in decoder.append_forced(branch, text):
                    yield None
                    if self._is_late():
                        self._filled[number] = [_unchanged(hole)]
                        self._was_cut = True
                        self._drop_mismatches()
                        return
                branch.is_finished = True
                first = int((1 - hole.strength) * len(text))  # alternatives keep so many of its tokens
                spare = 1  # this one is the current text
            found = [branch]
            if branch.is_finished and not self._was_cut:
                is_long = text is None and (spare > 0 or branch.prompt.ending.is_in_prose)
                share = _SENTENCES_SHARE if is_long else 1.0
                yield from self._write_alternatives(
                    number, decoder.add_alternatives(found, wanted + spare, first), found, share
                )
            self._counters.steps += decoder.passes
        if text is not None:
            others = [each for each in found[1:] if each.text.startswith(hole.starts_with)]
            found = sorted(others, key=lambda each: -each.score) or found[:1]
        if found[0].is_finished:
            found = [each for each in found if each.text.strip()] or found
            ranked = [each.to_ranked_fill(place, decoder.passes) for place, each in enumerate(found)]
            ranked.sort(key=lambda each: (results.flaws(each), each.index > 0, -each.score))
            self._filled[number] = ranked[:wanted]
            self._drop_mismatches()

    def _write(self, number: int, branch: Branch, decoder: Decoder) -> Iterator[FimEvent | None]:
        """The likeliest text; follows what is typed meanwhile. Left without an end if it disagrees."""
        typed = self._parts.holes[number].starts_with
        while not branch.is_finished:
            decoder.step(branch)
            yield self._draft(number, branch) if self._request.drafts else None
            if typed != self._parts.holes[number].starts_with:
                typed = self._parts.holes[number].starts_with
                if not branch.repin(typed):
                    branch.is_finished = False
                    break
            if not branch.is_finished and self._is_late():
                branch.cut(is_late=True)
                self._was_cut = True

    def _write_alternatives(
        self, number: int, writing: Iterator[None], found: list[Branch], share: float
    ) -> Iterator[FimEvent | None]:
        """Alternatives until this share of the time, while the first is still right. Several holes share the time. Each
        hole gets a text that is not blank; one alone, one with a word.
        """
        is_useful: Callable[[str], object] = _has_word
        if self._region:
            share = _TEXTS_SHARE * (len(self._filled) + 1) / len(self._parts.holes)
            is_useful = str.strip
        for _ in writing:
            yield None
            is_over = self._is_after(time.monotonic(), share) and any(is_useful(each.text) for each in found)
            if is_over or self._is_late() or not found[0].text.startswith(self._parts.holes[number].starts_with):
                break

    def _prefill(
        self, number: int, stack: ExitStack
    ) -> Generator[None, None, tuple[Branch, list[int] | None, FimPrefixHandle, list[int]]]:
        """Reads the prompt of a hole and its given text; a shorter one where reading the whole would take too long.

        Returns the text as far as it is given, the tokens of the hole's current text if it is reworked, and what was
        written there before.
        """
        for reach in dict.fromkeys((self._choose_window(number), MIN_WINDOW)):
            branch, text = self._begin(number, reach)
            ids = [*branch.prompt.ids, *branch.ids]
            before = self._family.cached_continuation(branch.prompt.ids)
            context = stack.enter_context(closing(self._family.open(ids)))
            share, short = (None, len(ids)) if reach is MIN_WINDOW else (_PREFILL_SHARE, self._prompts.short_tokens)
            if (yield from self._prefill_context(context, ids, share=share, short_tokens=short)):
                break
            stack.pop_all().close()
        return branch, text, context, before

    def _choose_window(self, number: int) -> PromptWindow:
        """The most that can be read in time, as far as the model's speed is known; else what is read the soonest."""
        unread: dict[PromptWindow, int] = {}
        for reach in self._prompts.windows:
            begun = self._begin(number, reach)[0]
            ids = [*begun.prompt.ids, *begun.ids]
            if self._request.quick and not unread and not self._can_prefill(len(ids)):
                self._family.prefill_when_idle(self._prompts.ids_to_prefill(self._parts, number))
            unread[reach] = len(ids) - self._family.cached_tokens(ids)
            if self._can_prefill(unread[reach]):
                return reach
        return min(unread, key=unread.__getitem__)

    def _can_prefill(self, tokens: int) -> bool:
        ends_s = time.monotonic() + tokens * self._family.prompt_token_ms / 1000
        return not self._is_after(ends_s, _PREFILL_SHARE)

    def _begin(self, number: int, reach: PromptWindow) -> tuple[Branch, list[int] | None]:
        hole = self._parts.holes[number]
        prompt = self._prompts.build(self._parts, self._texts(), number, reach)
        if query.is_rewritten(hole) and prompt.query is None:
            return Branch.from_existing(self._model.vocabulary, prompt, hole.text)
        return Branch.from_forced(self._model.vocabulary, prompt), None

    def _texts(self) -> list[str]:
        filled = self._filled
        return [filled[number][0].texts[0] if number in filled else "" for number in range(len(self._parts.holes))]

    def _is_complete(self) -> bool:
        """Whether every hole has a text and there is time for more."""
        return len(self._filled) == len(self._parts.holes) and not self._was_cut and not self._is_late()

    def _draft(self, number: int | None = None, branch: Branch | None = None) -> Draft:
        """The current state of the hole in progress, the texts of filled holes, and nothing in the others."""
        known = {other: ((found[0].texts[0],), (found[0].canvas.confidence,)) for other, found in self._filled.items()}
        nothing: tuple[tuple[str, ...], tuple[float, ...]] = ((), ())
        here = branch.token_texts(self._model.vocabulary) if branch else nothing
        parts = [here if hole == number else known.get(hole, nothing) for hole in range(len(self._parts.holes))]
        most = sum(map(query.max_new_tokens, self._parts.holes))
        done = (len(branch.choices) if branch else 0) + sum(found[0].tokens for found in self._filled.values())
        return Draft(
            self._request.id,
            min(done, most),
            most,
            tuple(texts for texts, _ in parts),
            tuple(sure for _, sure in parts),
        )

    def _common_region(self) -> Region | None:
        """From the first hole to the last; None if that is too long, or with one hole, an instruction or a rework."""
        texts = self._parts.texts
        holes = self._parts.holes
        if len(holes) == 1 or self._prompts.uses_chat or any(map(query.is_rewritten, holes)):
            return None
        kept = (hole.text for hole in holes if hole.strength == 0)
        if sum(map(len, (*texts[1:-1], *kept))) > _MAX_REGION_CHARS:
            return None
        with suppress(RequestError):
            return Region(self._model, self._prompts, self._parts)
        return None

    def _holes_with_alternatives(self) -> list[int]:
        """The holes with several texts, the least sure first."""
        several = [number for number, found in self._filled.items() if found[1:]]
        return sorted(several, key=lambda number: self._filled[number][0].score)

    def _rerank(self, region: Region) -> Iterator[FimEvent | None]:
        """Puts those texts first that make the region likeliest, hole by hole, the least sure first."""
        ids = region.prompt.ids
        if not self._holes_with_alternatives() or not self._can_prefill(len(ids) - self._family.cached_tokens(ids)):
            return
        with closing(self._family.open(ids)) as context:
            if not (yield from self._prefill_context(context, ids, share=_PREFILL_SHARE, short_tokens=0)):
                return
            decoder = Decoder(self._model, context, 0, None)
            left = _MAX_RERANK_TOKENS
            for number in self._holes_with_alternatives():
                if self._is_complete():
                    tokens = region.unread_tokens(number, self._texts(), len(self._filled[number]))
                    if tokens <= left and self._can_prefill(tokens):
                        left -= tokens
                        yield from self._rank_by_region(number, region, decoder)
            self._counters.steps += decoder.passes

    def _rank_by_region(self, number: int, region: Region, decoder: Decoder) -> Iterator[FimEvent | None]:
        """Sorts the texts of a hole by the likelihood of the region with each; the first stays unless one is clearly
        likelier.
        """
        texts = self._texts()
        sums = dict[tuple[str, ...], float]()

        def is_nearly_late() -> bool:
            """Whether another pass could miss the deadline."""
            return self._is_after(time.monotonic(), _RERANK_SHARE)

        for each in list(self._filled[number]):
            fills = [*texts[:number], *each.texts, *texts[number + 1 :]]
            found = yield from region.log_likelihood(decoder, fills, is_nearly_late)
            if found is None or not self._is_complete():
                return
            sums[each.texts] = found if sums else found + _RERANK_MARGIN_NATS
        self._filled[number].sort(key=lambda each: (results.flaws(each), -sums[each.texts]))
        yield self._draft() if self._request.drafts else None


def _unchanged(hole: Hole) -> RankedFill:
    return RankedFill((hole.text,), 0.0, 0, 0, FilledCanvas([], [], (), 0))


def _has_word(text: str) -> bool:
    return any(map(str.isalnum, text))
