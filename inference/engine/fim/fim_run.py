"""Works on one request with a causal model: hole after hole, each seeing the text of all others.

Prefills each hole's prompt, with as much of the text around it as there is time for, and decodes its fills. Each of
several holes gets several fills; reranking chooses those that make the whole region likeliest.

Each step makes at most one forward pass. Between steps the worker can serve another request or stop this one.
"""

import math
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace

from inference.deadline import Deadline
from inference.ending import first_unlikely_offset
from inference.engine.canvas import repetition, results
from inference.engine.canvas.plan import TextAndHoles, text_and_holes
from inference.engine.canvas.results import FilledCanvas, RankedFill
from inference.engine.errors import RequestError
from inference.engine.fim import query
from inference.engine.fim.decode import Branch, Decoder, PromptLookup
from inference.engine.fim.prompt import MIN_WINDOW, PromptBuilder, PromptWindow
from inference.engine.loaded_model import LoadedModel
from inference.engine.request_run import RequestRun
from inference.messages import MAX_CANDIDATES, Done, Draft, FilledHoles, Hole, InfillRequest, Outcome, estimate_tokens
from inference.models.family import FimPrefixHandle, common_prefix_length

FimEvent = Draft | FilledHoles | Done
_WORD = re.compile(r"[^\W_]")
_CLOSERS = " \t\n)]}\"'`,;"
"""Inside a line such a character may repeat the rest of the line: only the text after it tells."""
_PREFILL_SHARE = 0.75
"""The share of the time until the deadline for prefill."""
_UNNOTICED_MS = 50
"""A prompt that takes less time than this is prefilled whole."""
_TEXTS_PER_HOLE = 3
"""How many texts to decode for each of several holes."""
_TEXTS_SHARE = 0.5
"""Decoding them may take this share of the time until the deadline, divided equally among the holes."""
_MAX_RETRIES = 3
"""How many alternatives to try if the likeliest text is blank or repeats itself."""

_ALTERNATIVES_SHARE, _ALTERNATIVES_FACTOR = 0.05, 0.5
"""The user waits for all texts of a hole, so alternatives end after this share of the time until the deadline per text.
After a slow first text of code, they get this part of its time.
"""
_MAX_RERANK_TOKENS = 1_000
_RERANK_SHARE = 0.9
"""No pass for reranking begins after this share of the time until the deadline."""
_MAX_REGION_CHARS = 2_000
"""With more pinned text than this between the holes, scoring the region takes too long."""
_RERANK_MARGIN_NATS = 1.0
"""How much likelier another text must make the region to replace the first; a smaller gap is noise."""


class JointFillScorer:
    """Everything from a request's first hole to its last, as one long fill. Its likelihood decides between texts."""

    def __init__(self, model: LoadedModel, prompts: PromptBuilder, parts: TextAndHoles) -> None:
        """Raises RequestError if the region does not fit the model's context."""
        self._vocabulary = model.vocabulary
        self._inner = [*parts.texts[1:-1], ""]
        pinned_text = self._inside([hole.text if hole.strength == 0 else "" for hole in parts.holes])
        max_tokens = estimate_tokens(pinned_text) + sum(map(query.max_new_tokens, parts.holes))
        outer = TextAndHoles((parts.texts[0], parts.texts[-1]), (Hole(max_tokens=max_tokens),))
        self.prompt = prompts.build(outer, ("",), 0)
        self._last = Branch(self.prompt, [], 0, b"")

    def unread_tokens(self, index: int, fills: Sequence[str], num_texts: int) -> int:
        """How many tokens must be read to score the region with `num_texts` different texts of one hole."""
        new = 0 if self._last.ids else len(self._vocabulary.encode(self._inside(fills)))
        return new + num_texts * len(self._vocabulary.encode(self._inside(fills, index)))

    def log_likelihood(
        self, decoder: Decoder, fills: Sequence[str], is_late: Callable[[], bool] = lambda: False
    ) -> Generator[None, None, float | None]:
        """The log-probability of the region with these fills, and of its end; None if time runs out first.

        Each `next` is a forward pass. `decoder` has read `prompt`, and does not read again the start that the region
        shares with the last one. The line before the first hole counts, too: its tokens depend on what follows.
        """
        ids = self._vocabulary.encode(self.prompt.forced_start.decode() + self._inside(fills))
        branch = self._last.truncated(self._vocabulary, common_prefix_length(self._last.ids, ids))
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
    """Yields drafts if requested, then the candidates, best first, then Done."""

    def __init__(self, model: LoadedModel, request: InfillRequest, deadline: Deadline | None) -> None:
        """Raises RequestError if the request makes no sense."""
        super().__init__(deadline)
        self._model = model
        self._adapter = model.fim_adapter
        self._request = request
        self._parts = text_and_holes(request)
        self._prompts = PromptBuilder(model, request)
        self._fills: dict[int, list[RankedFill]] = {}
        """The texts of each hole, best first, in filling order."""
        self._was_cut = False
        """Whether the deadline cut a text short."""
        self._ended_unsure = False
        """Whether the text ended behind an unlikely token."""
        self._window = self._prompts.windows[0]
        self._later_ids: list[int] = []
        self._max_texts = 1 if request.quick else min(max(1, request.candidates), MAX_CANDIDATES)
        self._region = None if request.quick else self._common_region()

    def _run(self) -> Generator[FimEvent | None, None, None]:
        count = len(self._parts.holes)
        if self._request.prefill_only:
            windows = dict.fromkeys((self._choose_window(0), self._prompts.windows[0]))
            branches = (self._begin(0, window)[0] for window in windows)
            prompts = ([*branch.prompt.ids, *branch.ids] for branch in branches)
            if unread := [ids for ids in prompts if self._adapter.cached_tokens(ids, exact=True) < len(ids)]:
                self._adapter.prefill_when_idle(*unread)
            yield Done(self._request.id, Outcome.COMPLETE, self._counters.stats())
            return
        yield from self._fill_all()
        if count > 1 and self._region and self._is_complete():
            yield from self._rerank(self._region)
        yield from self._candidates()
        if self._request.reads_ahead and count == 1 and self._is_complete() and not self._prompts.uses_chat:
            self._read_ahead()
        outcome = Outcome.DEADLINE if self._was_cut or len(self._fills) < count else Outcome.COMPLETE
        yield Done(self._request.id, outcome, self._counters.stats())

    def _read_ahead(self) -> None:
        """Schedules idle prefill of the largest prompt for the next line, as if the user had accepted the fill, and of
        `_later_ids`: before that a larger prompt for this line, or after it this prompt again if its suffix was kept.
        """
        prefix, suffix = self._parts.texts
        line_end = "\r\n" if "\r\n" in suffix else "\n"
        line_suffix = suffix.partition(line_end)[0]
        text = f"{prefix}{self._fills[0][0].texts[0]}{line_suffix}{line_end}"
        parts = TextAndHoles((text, suffix[len(line_suffix) :]), (Hole(single_line=True),))
        with suppress(RequestError):  # too long
            largest = self._prompts.windows[0]
            next_ids = [] if self._ended_unsure else [self._prompts.build(parts, ("",), 0, largest).ids]
            is_whole = self._window == largest
            prompts = [*next_ids, self._later_ids] if is_whole else [self._later_ids, *next_ids]
            self._adapter.prefill_when_idle(*prompts)

    def _fill_all(self) -> Iterator[FimEvent | None]:
        """Fills the holes in order. The first one gets at least one pass, however late it is."""
        count = len(self._parts.holes)
        num_texts = self._max_texts if count == 1 else max(_TEXTS_PER_HOLE, self._max_texts) if self._region else 1
        for index in range(count):
            if self._was_cut or (self._fills and self._is_late()):
                break
            yield from self._fill(index, num_texts)

    def _candidates(self) -> Iterator[FilledHoles]:
        holes = self._parts.holes
        for index in self._holes_with_alternatives()[1:]:  # alternatives of two holes need not fit together
            del self._fills[index][1:]
        filled = {index: fills for index, fills in self._fills.items() if any(fills[0].texts)}
        complete = not self._was_cut and len(self._fills) == len(holes)
        ms = self._counters.ms()
        yield from results.combine_canvas_fills(self._request.id, filled, holes, self._max_texts, ms, complete=complete)

    def _fill(self, index: int, num_texts: int) -> Iterator[FimEvent | None]:
        """Decodes the texts of one hole, given the texts of the other holes."""
        hole = self._parts.holes[index]
        if hole.strength == 0:
            self._fills[index] = [_unchanged(hole)]
            return
        self._counters.canvases += 1
        with ExitStack() as stack:
            branch, text, context, previous_ids = yield from self._prefill(index, stack)
            decoder = Decoder(self._model, context, branch.num_forced, PromptLookup(branch.prompt.ids, previous_ids))
            is_unwanted = branch.prompt.ending.is_unwanted
            first = num_extra = 0
            if text is None:
                yield from self._write(index, branch, decoder)
                is_useless = not branch.text.strip() or repetition.is_repetitive(branch.text)
                is_retried = is_unwanted(branch.text) or (is_useless and not self._request.quick)
                num_extra = _MAX_RETRIES if is_retried and not self._ended_unsure else 0
            else:
                for _ in decoder.append_forced(branch, text):
                    yield None
                    if self._is_late():
                        self._fills[index] = [_unchanged(hole)]
                        self._was_cut = True
                        return
                branch.is_finished = True
                first = int((1 - hole.strength) * len(text))  # all alternatives keep this many of its tokens
                num_extra = 1  # the current text itself
            branches = [branch]
            if not self._was_cut:
                passes = decoder.add_alternatives(branches, num_texts + num_extra, first)
                end_s = math.inf if text is not None else self._alternatives_end_s(branch, num_texts, num_extra > 0)
                yield from self._write_alternatives(passes, branches, end_s)
            self._counters.steps += decoder.passes
        branches = [item for item in branches if item.text.startswith(hole.starts_with)]  # a cut text may be shorter
        if text is not None:
            alternatives = [item for item in branches if item is not branch]
            branches = sorted(alternatives, key=lambda item: -item.mean_logprob) or branches
        branches = [item for item in branches if item.text.strip()] or branches
        vocabulary = self._model.vocabulary
        ranked = [item.ranked_fill(vocabulary, rank, decoder.passes) for rank, item in enumerate(branches)]
        ranked.sort(
            key=lambda fill: (results.fill_flaws(fill), is_unwanted(fill.texts[0]), fill.index > 0, -fill.score)
        )
        if ranked:
            self._fills[index] = ranked[:num_texts]

    def _write(self, index: int, branch: Branch, decoder: Decoder) -> Iterator[FimEvent | None]:
        """Decodes the likeliest text, at most until the deadline."""
        while not branch.is_finished:
            decoder.step(branch)
            yield self._draft(index, branch) if self._request.drafts else None
            if not branch.is_finished and self._is_late():
                branch.end_early(drops_word=True)
                self._was_cut = True
            elif not branch.is_finished and self._is_unsure(branch):
                branch.is_finished = self._ended_unsure = True

    def _is_unsure(self, branch: Branch) -> bool:
        """Whether the text of a single hole, no comment, goes on with a token less likely than wanted."""
        min_prob = self._request.min_prob
        if not min_prob or len(self._parts.holes) > 1 or branch.prompt.ending.is_comment(branch.text):
            return False
        offset = first_unlikely_offset(*branch.token_texts(self._model.vocabulary), min_prob)
        blank = _CLOSERS if self._parts.texts[1].partition("\n")[0].strip() else None
        return offset is not None and bool(branch.text[offset:].strip(blank))

    def _write_alternatives(
        self, passes: Iterator[Branch], branches: list[Branch], end_s: float
    ) -> Iterator[FimEvent | None]:
        """Decodes alternatives until `end_s` on the monotonic clock.

        If no text is useful by then (not blank; with one hole, containing a word), goes on until one is or the deadline
        is past. A quick request stops at the first text that is not unwanted.
        """
        is_useful: Callable[[str], object] = str.strip if self._region else _WORD.search
        is_unwanted = branches[0].prompt.ending.is_unwanted
        for last in passes:
            yield None
            if self._request.quick and not all(is_unwanted(branch.text) for branch in branches):
                break
            is_late, has_text = self._is_late(), any(is_useful(branch.text) for branch in branches)
            if is_late and not has_text and is_useful(last.text):
                if not last.is_finished:
                    last.end_early(drops_word=True)
                    self._was_cut = True
                branches.append(last)
            if is_late or (has_text and time.monotonic() >= end_s):
                break

    def _alternatives_end_s(self, first: Branch, num_texts: int, is_useless: bool) -> float:
        """When to stop decoding alternatives to the `first` text of a hole, on the monotonic clock."""
        num_holes = len(self._parts.holes)
        if self._deadline is None or (num_holes > 1 and not self._region):
            return math.inf
        now_s, began_s = time.monotonic(), self._counters.started
        limit_s = self._deadline.time_s - began_s
        if self._region:
            return began_s + limit_s * _TEXTS_SHARE * (len(self._fills) + 1) / num_holes
        first_s = 0.0 if is_useless or first.prompt.is_prose else now_s - began_s
        return max(began_s + limit_s * _ALTERNATIVES_SHARE * num_texts, now_s + first_s * _ALTERNATIVES_FACTOR)

    def _prefill(
        self, index: int, stack: ExitStack
    ) -> Generator[None, None, tuple[Branch, list[int] | None, FimPrefixHandle, list[int]]]:
        """Prefills the prompt of a hole with its forced text, or a shorter prompt if that would take too long.

        Returns a branch of the forced text, the tokens of the hole's current text if it is rewritten, the prefix
        handle, and the output of the last request with this prompt.
        """
        for window in dict.fromkeys((self._choose_window(index), MIN_WINDOW)):
            branch, text = self._begin(index, window)
            ids = [*branch.prompt.ids, *branch.ids]
            self._window, self._later_ids = window, self._later_ids or ids
            previous_ids = self._adapter.cached_continuation(branch.prompt.ids)
            context = stack.enter_context(closing(self._adapter.open_prefix(ids)))
            share, short = (None, len(ids)) if window is MIN_WINDOW else (_PREFILL_SHARE, self._prompts.short_tokens)
            if (yield from self._prefill_context(context, ids, share=share, short_tokens=short)):
                break
            stack.pop_all().close()
        return branch, text, context, previous_ids

    def _choose_window(self, index: int) -> PromptWindow:
        """The largest window that can be prefilled in time at the model's measured speed, else the quickest one.

        If that takes noticeably long, an automatic request uses a smaller window whose whole prompt is cached.
        """
        unread: dict[PromptWindow, int] = {}
        largest: PromptWindow | None = None
        for window in self._prompts.windows:
            branch = self._begin(index, window)[0]
            ids = [*branch.prompt.ids, *branch.ids]
            if self._request.reads_ahead and not unread and not self._can_prefill(len(ids)):
                self._later_ids = ids
                self._adapter.prefill_when_idle(ids)
            cached_tokens = self._adapter.cached_tokens(ids)
            unread[window] = len(ids) - cached_tokens
            if largest is None and self._can_prefill(unread[window]):
                largest = window
                if not self._request.quick or unread[window] * self._adapter.prompt_token_ms < _UNNOTICED_MS:
                    break
            if largest and cached_tokens >= len(branch.prompt.ids):
                return window
        return largest or min(unread, key=unread.__getitem__)

    def _can_prefill(self, tokens: int) -> bool:
        ends_s = time.monotonic() + tokens * self._adapter.prompt_token_ms / 1000
        return not self._is_after(ends_s, _PREFILL_SHARE)

    def _begin(self, index: int, window: PromptWindow) -> tuple[Branch, list[int] | None]:
        hole = self._parts.holes[index]
        prompt = self._prompts.build(self._parts, self._texts(), index, window)
        if query.is_rewrite(hole) and prompt.query is None:
            return Branch.from_existing(self._model.vocabulary, prompt, hole.text)
        return Branch.from_forced(self._model.vocabulary, prompt), None

    def _texts(self) -> list[str]:
        fills = self._fills
        return [fills[index][0].texts[0] if index in fills else "" for index in range(len(self._parts.holes))]

    def _is_complete(self) -> bool:
        """Whether every hole has a text, and the deadline is not past."""
        return len(self._fills) == len(self._parts.holes) and not self._was_cut and not self._is_late()

    def _draft(self, current: int | None = None, branch: Branch | None = None) -> Draft:
        """A draft: the `branch` of the hole with index `current`, the best texts of filled holes; others are empty."""
        best = {index: fills[0] for index, fills in self._fills.items()}
        parts = {index: fill.token_texts[0] for index, fill in best.items()}
        if current is not None and branch:
            parts[current] = branch.token_texts(self._model.vocabulary)
        max_tokens = sum(map(query.max_new_tokens, self._parts.holes))
        tokens = (len(branch.choices) if branch else 0) + sum(fill.tokens for fill in best.values())
        return results.build_draft(self._request.id, min(tokens, max_tokens), max_tokens, parts, len(self._parts.holes))

    def _common_region(self) -> JointFillScorer | None:
        """The region from the first hole to the last; None if it is too long, or for one hole, a chat or a rewrite."""
        texts = self._parts.texts
        holes = self._parts.holes
        if len(holes) == 1 or self._prompts.uses_chat or any(map(query.is_rewrite, holes)):
            return None
        pinned_texts = (hole.text for hole in holes if hole.strength == 0)
        if sum(map(len, (*texts[1:-1], *pinned_texts))) > _MAX_REGION_CHARS:
            return None
        with suppress(RequestError):
            return JointFillScorer(self._model, self._prompts, self._parts)
        return None

    def _holes_with_alternatives(self) -> list[int]:
        """The holes with several texts, the least confident first."""
        several = [index for index, fills in self._fills.items() if fills[1:]]
        return sorted(several, key=lambda index: self._fills[index][0].score)

    def _rerank(self, region: JointFillScorer) -> Iterator[FimEvent | None]:
        """Sorts the texts of each hole by how likely they make the region, beginning with the least confident hole."""
        ids = region.prompt.ids
        if not self._holes_with_alternatives() or not self._can_prefill(len(ids) - self._adapter.cached_tokens(ids)):
            return
        with closing(self._adapter.open_prefix(ids)) as context:
            if not (yield from self._prefill_context(context, ids, share=_PREFILL_SHARE, short_tokens=0)):
                return
            decoder = Decoder(self._model, context, 0, None)
            remaining_tokens = _MAX_RERANK_TOKENS
            for index in self._holes_with_alternatives():
                if self._is_complete():
                    tokens = region.unread_tokens(index, self._texts(), len(self._fills[index]))
                    if tokens <= remaining_tokens and self._can_prefill(tokens):
                        remaining_tokens -= tokens
                        yield from self._rank_by_region(index, region, decoder)
            self._counters.steps += decoder.passes

    def _rank_by_region(self, index: int, region: JointFillScorer, decoder: Decoder) -> Iterator[FimEvent | None]:
        """Sorts the texts of one hole by the region's likelihood; the first one has a lead of `_RERANK_MARGIN_NATS`."""
        texts = self._texts()
        scores = dict[tuple[str, ...], float]()
        for fill in list(self._fills[index]):
            fills = [*texts[:index], *fill.texts, *texts[index + 1 :]]
            logprob = yield from region.log_likelihood(
                decoder, fills, lambda: self._is_after(time.monotonic(), _RERANK_SHARE)
            )
            if logprob is None or not self._is_complete():
                return
            scores[fill.texts] = logprob if scores else logprob + _RERANK_MARGIN_NATS
        self._fills[index].sort(key=lambda fill: (results.fill_flaws(fill), -scores[fill.texts]))
        yield self._draft() if self._request.drafts else None


def _unchanged(hole: Hole) -> RankedFill:
    return RankedFill((hole.text,), 0.0, 0, 0, FilledCanvas([], [], (), 0), (((hole.text,), (1.0,)),))
