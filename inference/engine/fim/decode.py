"""Decodes texts behind one prompt: the likeliest token each time, then the texts that branch off where the model was
least sure.

Guesses of the next tokens are verified on the way, and the rows of wrong ones forgotten, so a text is the same with and
without them (Stern et al., 2018, https://arxiv.org/abs/1811.03115). Guesses are the tokens that followed the same
tokens earlier, in the prompt or in the text (prompt lookup decoding: Saxena, 2023,
https://github.com/apoorvumang/prompt-lookup-decoding), or behind the same prompt before the last key. A further text
takes the alternative whose log-probability is nearest to the chosen one's, counted along the way, and continues from
there. Nothing is random, so the same request has the same answers.
"""

import heapq
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor

from inference.engine.canvas.batch import FORBIDDEN
from inference.engine.canvas.layout import HoleLayout
from inference.engine.canvas.results import FilledCanvas, RankedFill
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.fim.prompt import FimPrompt
from inference.engine.loaded_model import LoadedModel
from inference.models.family import FimPrefixHandle, common_start

_LAST_WORD = re.compile(rb"[\w\x80-\xff]+\Z")
_NUM_ALTERNATIVES = 4
"""Remember this many of the likeliest tokens at each place."""
_MIN_LOOP_TOKENS = 48
_MAX_LOOP_PERIOD = 8
"""Stops a text that repeats the same few tokens, at most this many, for this many tokens."""
_PREFILL_CHUNK_TOKENS = 64
"""Read this many tokens of a given text per pass."""
_MAX_NGRAM = 4
_MIN_NGRAM = 2
_MAX_DRAFTED, _MAX_LOOKED_UP = 8, 3
"""More guesses from the prompt cost more than they save: 8 lines took 7.2 s without, 5.2 s with 3, 6.8 s with 8. What
was written in the same place before is right more often.
"""
_DEPTH_PENALTY_NATS = 2.0
"""A branch of a branch counts as this much less likely, in nats: otherwise most would differ only in a comment."""
_TRIES_PER_TEXT = 2
"""Write at most this many times the number of wanted texts, since some turn out the same."""


class TokenChoice(NamedTuple):
    """A token, its log-probability among the allowed ones, and the likeliest alternatives with theirs."""

    id: int
    logprob: float
    alternatives: tuple[tuple[int, float], ...] = ()


@dataclass
class Branch:
    """One text: `ids` behind the prompt, the first `forced` of them given. Its choices include the one that ends it."""

    prompt: FimPrompt
    ids: list[int]
    forced: int
    data: bytes
    choices: list[TokenChoice] = field(default_factory=list)
    is_finished: bool = False

    @classmethod
    def from_forced(cls, vocabulary: Vocabulary, prompt: FimPrompt) -> "Branch":
        """Only the given tokens, minus the last, which is decoded again."""
        ids = vocabulary.encode(prompt.forced.decode())[:-1]
        while not prompt.forced.startswith(data := vocabulary.bytes_of(ids)):  # a tokenizer that changes text
            ids.pop()
        return cls(prompt, ids, len(ids), data)

    @classmethod
    def from_existing(cls, vocabulary: Vocabulary, prompt: FimPrompt, text: str) -> tuple["Branch", list[int]]:
        """Only the text in front of a hole on its line, and the tokens of the hole's current text to read behind it."""
        line = prompt.forced[: prompt.healed_bytes]
        ids = vocabulary.encode(line.decode() + text)
        count = len(ids)
        while len(vocabulary.bytes_of(ids[:count])) > len(line):
            count -= 1
        here = replace(prompt, forced=line, max_new_tokens=max(prompt.max_new_tokens, len(ids)))
        return cls(here, ids[:count], count, vocabulary.bytes_of(ids[:count])), ids[count:]

    @property
    def remaining_forced(self) -> bytes:
        """The given tokens that are not written yet."""
        return self.prompt.forced[len(self.data) :]

    @property
    def tokens(self) -> int:
        """The number of tokens chosen for the text; 0 until some of it is visible."""
        return len(self.ids) - self.forced if self.data[len(self.prompt.forced) :].strip() else 0

    @property
    def total_logprob(self) -> float:
        return sum(choice.logprob for choice in self.choices)

    @property
    def score(self) -> float:
        """The mean log-probability of a choice."""
        return self.total_logprob / max(1, len(self.choices))

    @property
    def text(self) -> str:
        return self.prompt.text(self.data, ended=self.is_finished)

    def cut(self, *, is_late: bool = False) -> None:
        """Ends it early. Drops what is half-written: the last of several lines, the last word of a late line."""
        self.is_finished = True
        start = max(self.prompt.healed_bytes, len(self.prompt.forced))
        written = self.data[start:]
        if not self.prompt.single_line and b"\n" in written.strip(b"\n"):
            written = written[: written.rindex(b"\n")]
        elif is_late:
            written = _LAST_WORD.sub(b"", written).rstrip(b" \t") or written
        self.data = self.data[:start] + written

    def repin(self, text: str) -> bool:
        """Makes the fill begin with `text` from now on. False if it does not, and the given tokens cannot change."""
        prompt = self.prompt
        if prompt.query is not None or not text.startswith(prompt.fill_prefix):
            return self.text.startswith(text)
        given = prompt.forced[: prompt.healed_bytes] + text[len(prompt.fill_prefix) :].encode()
        self.prompt = replace(prompt, forced=given)
        return self.data.startswith(given) or (not self.is_finished and given.startswith(self.data))

    def truncated(self, vocabulary: Vocabulary, place: int) -> "Branch":
        """A copy that continues from before the choice of this number."""
        ids = self.ids[: self.forced + place]
        return Branch(self.prompt, ids, self.forced, vocabulary.bytes_of(ids), self.choices[:place])

    def filled_canvas(self, steps: int = 0) -> FilledCanvas:
        sure = [1.0] * self.forced + [math.exp(choice.logprob) for choice in self.choices]
        return FilledCanvas(self.ids, sure, ((0, self.forced, len(self.ids)),), steps)

    def to_ranked_fill(self, number: int, steps: int) -> RankedFill:
        return RankedFill((self.text,), self.score, len(self.ids) - self.forced, number, self.filled_canvas(steps))

    def token_texts(self, vocabulary: Vocabulary) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """The fill so far as a text per token, and the model's confidence in each; a chat turn's as one text."""
        text, written = self.text, self.filled_canvas()
        if self.prompt.query is not None or self.prompt.fill_prefix:
            return (text,), (fmean(written.confidences or [1.0]),)
        found, chances = written.token_texts(
            vocabulary, 0, HoleLayout(len(self.ids), healed_bytes=self.prompt.healed_bytes)
        )
        left = len(text)
        kept = []
        for piece in found:
            kept.append(piece[:left])
            left -= len(kept[-1])
        kept = [piece for piece in kept if piece]
        return tuple(kept), tuple(chances[: len(kept)])


class PromptLookup:
    """The places of all short runs of tokens read or written so far. The latest of each counts."""

    def __init__(self, ids: Sequence[int], written_ids: Sequence[int] = ()) -> None:
        """`written_ids`: what was written behind `ids` before."""
        self._ids: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}
        self._previous = PromptLookup([*ids[-_MAX_NGRAM:], *written_ids]) if written_ids else None
        self.add(ids)

    def add(self, ids: Sequence[int]) -> None:
        """Adds these tokens as a source of guesses."""
        for id_ in ids:
            count = len(self._ids)
            for size in range(_MIN_NGRAM, min(_MAX_NGRAM, count) + 1):
                self._ends[tuple(self._ids[count - size :])] = count
            self._ids.append(id_)

    def draft_from_previous(self, tail: Sequence[int], most: int) -> list[int]:
        """As `draft`, from what was written before."""
        return self._previous.draft(tail, most) if self._previous else []

    def draft(self, tail: Sequence[int], most: int = _MAX_DRAFTED) -> list[int]:
        """At most this many tokens that followed the longest known run at the end of `tail`."""
        for size in range(min(_MAX_NGRAM, len(tail)), _MIN_NGRAM - 1, -1):
            place = self._ends.get(tuple(tail[len(tail) - size :]))
            if place is not None:
                return self._ids[place : place + most]
        return []


class Decoder:
    """Works on the branches of one prompt, one at a time. Computes their common prefixes once."""

    def __init__(self, model: LoadedModel, context: FimPrefixHandle, forced: int, lookup: PromptLookup | None) -> None:
        """`context` has read the prompt and the `forced` tokens of all branches. `lookup` None: no guesses."""
        self._vocabulary = model.vocabulary
        self._context = context
        self._forced = forced
        self._lookup = lookup
        self._end_ids = model.fim.stop_ids
        self._sorted_end_ids = sorted(self._end_ids)
        self._device = model.family.device
        self._text_or_end_bias = model.constraints.text_bias.clone()
        self._text_or_end_bias[self._sorted_end_ids] = 0.0
        self._fed_ids: list[int] = []
        self._capacity = -1
        self._max_drafted = min(_MAX_DRAFTED, max(1, model.traits.free_rows - 1))
        self.passes = 0

    def write(self, branch: Branch) -> Iterator[None]:
        """Writes a branch to its end; each `next` is a forward pass, after which it may be changed or left."""
        while not branch.is_finished:
            self.step(branch)
            yield

    @torch.inference_mode()
    def step(self, branch: Branch) -> None:
        """One forward pass: the next token, and the correct guesses behind it."""
        guessed = self._draft(branch)
        for place, row in enumerate(self._forward(branch, guessed)):
            choice = self._choose(row, branch)
            self._append(branch, choice)
            if branch.is_finished or guessed[place : place + 1] != [choice.id]:
                break

    def append_forced(self, branch: Branch, ids: Sequence[int]) -> Iterator[None]:
        """Continues the branch with given tokens and records how likely each was. Each `next` is a forward pass."""
        for first in range(0, len(ids), _PREFILL_CHUNK_TOKENS):
            given = list(ids[first : first + _PREFILL_CHUNK_TOKENS])
            for id_, row in zip(given, self._forward(branch, given), strict=False):
                branch.choices.append(self._choose(row, branch, id_))
                branch.ids.append(id_)
                branch.data += self._vocabulary.bytes_of([id_])
            yield

    def add_alternatives(self, found: list[Branch], wanted: int, first: int = 0) -> Iterator[None]:
        """Appends texts to the one `found`, up to `wanted` different ones. Each `next` is a forward pass.

        They leave it from its choice number `first` on, and each other.
        """
        numbers = count()
        left: list[tuple[float, int, Branch, int, TokenChoice]] = []

        def add(branch: Branch, lost: float, first: int) -> None:
            """Others may leave `branch`, which is `lost` less likely than the first, from that choice on."""
            if self._lookup is not None:
                self._lookup.add(branch.ids)
            for place, choice in enumerate(branch.choices[first:], first):
                for id_, chance in choice.alternatives:
                    entry = lost + choice.logprob - chance, next(numbers), branch, place, TokenChoice(id_, chance)
                    heapq.heappush(left, entry)

        add(found[0], 0.0, first)
        texts = {found[0].text}
        for _ in range(_TRIES_PER_TEXT * wanted):
            if not left or len(found) >= wanted:
                break
            lost, _, parent, place, choice = heapq.heappop(left)
            branch = parent.truncated(self._vocabulary, place)
            self._append(branch, choice)
            yield from self.write(branch)
            add(branch, lost + _DEPTH_PENALTY_NATS, place + 1)
            if branch.text.strip() and branch.text not in texts:
                texts.add(branch.text)
                found.append(branch)

    @torch.inference_mode()
    def end_logprob(self, branch: Branch) -> float:
        """The log-probability that the text ends where the branch does now. One forward pass."""
        chances = (self._forward(branch, [])[0] + self._text_or_end_bias).log_softmax(-1)
        ends = self._sorted_end_ids + (self._vocabulary.line_break_ids if branch.prompt.single_line else [])
        return float(chances[ends].logsumexp(-1))

    def _draft(self, branch: Branch) -> list[int]:
        most = min(self._max_drafted, branch.prompt.max_new_tokens - len(branch.choices) - 1)
        if self._lookup is None or most <= 0:
            return []
        tail = [*branch.prompt.ids[-3:], *branch.ids][-4:]
        guessed = self._lookup.draft_from_previous(tail, most) or self._lookup.draft(tail, min(_MAX_LOOKED_UP, most))
        rest = branch.remaining_forced
        first = self._vocabulary.bytes_of(guessed[:1])
        return guessed if first.startswith(rest) or rest.startswith(first) else []

    @torch.inference_mode()
    def _forward(self, branch: Branch, more: Sequence[int]) -> Tensor:
        """(1 + len(more), V) logits after the branch and after each of `more`. Keeps the fed tokens."""
        ids = branch.ids[self._forced :]
        room = branch.prompt.max_new_tokens + _MAX_DRAFTED
        known = min(common_start(self._fed_ids, ids), len(ids) - 1)
        if known < 0 or len(ids) + len(more) > self._capacity:
            self._capacity = len(ids) + len(more) + room
            self._continuation = self._context.continuation(self._capacity)
            self._fed_ids = []
            known = 0
        elif known < len(self._fed_ids):
            self._continuation.rollback(len(self._fed_ids) - known)
        new = [*ids[known:], *more]
        self._fed_ids = [*self._fed_ids[:known], *new]
        self.passes += 1
        fed = torch.tensor([new], dtype=torch.long, device=self._device)
        if not more:
            return self._continuation.decode(fed)
        return self._continuation.verify(fed)[0, -1 - len(more) :]

    @torch.inference_mode()
    def _choose(self, row: Tensor, branch: Branch, id_: int | None = None) -> TokenChoice:
        """The likeliest allowed token, or the given one."""
        chances = (row + self._bias(branch)).log_softmax(-1)
        best = chances.topk(_NUM_ALTERNATIVES)
        likeliest = list(zip(best.indices.tolist(), best.values.tolist(), strict=True))
        chosen = likeliest[0] if id_ is None else (id_, max(FORBIDDEN, float(chances[id_])))
        others = tuple(each for each in likeliest if each[0] != chosen[0] and each[1] > FORBIDDEN / 2)
        return TokenChoice(chosen[0], chosen[1], others)

    def _bias(self, branch: Branch) -> Tensor:
        """(V,): text, plus its end once there is some; first of all the given tokens."""
        rest = branch.remaining_forced
        minimum = branch.prompt.min_tokens
        bias = self._text_or_end_bias
        if rest:
            ids = self._vocabulary.agreeing_with(rest)
            bias = torch.full_like(bias, FORBIDDEN)
            bias[ids] = self._text_or_end_bias[ids]
        if branch.tokens >= minimum:
            return bias
        bias = bias.clone()
        bias[self._sorted_end_ids] = FORBIDDEN
        if branch.prompt.single_line:
            breaks = self._vocabulary.line_break_ids
            bias[breaks if branch.tokens + 1 < minimum else self._vocabulary.breaks_in(breaks, len(rest))] = FORBIDDEN
        return bias

    def _append(self, branch: Branch, choice: TokenChoice) -> None:
        branch.choices.append(choice)
        if choice.id in self._end_ids:
            branch.is_finished = True
            return
        last = self._vocabulary.bytes_of([choice.id])
        branch.ids.append(choice.id)
        branch.data += last
        end = branch.prompt.find_stop(branch.data, last)
        if end is not None:
            branch.data = branch.data[:end]
            branch.is_finished = True
        elif not branch.remaining_forced and (
            len(branch.choices) >= branch.prompt.max_new_tokens or _is_looping(branch.ids)
        ):
            branch.cut()


def _is_looping(ids: Sequence[int]) -> bool:
    """Whether the text has repeated the same few tokens for so long that nothing else will come."""
    last = ids[-_MIN_LOOP_TOKENS:]
    return len(last) == _MIN_LOOP_TOKENS and any(
        last[period:] == last[:-period] for period in range(1, _MAX_LOOP_PERIOD + 1)
    )
