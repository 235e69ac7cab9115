"""Decodes texts after one prompt: greedily, then the texts that branch off where the model was least confident.

A pass verifies draft tokens and rolls back the rejected ones, so a text is the same with and without them (Stern et
al., 2018, https://arxiv.org/abs/1811.03115). Drafts are the tokens that followed the same tokens earlier, in the prompt
(prompt lookup decoding: Saxena, 2023, https://github.com/apoorvumang/prompt-lookup-decoding) or in another text after
it, such as that before the last key press. An alternative text takes the token whose log-probability is nearest to the
chosen one's, summed along the text, and continues from there. Nothing is random, so the same request has the same
answers.
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

from inference.ending import merge_typed_piece, slice_pieces
from inference.engine.canvas.batch import FORBIDDEN_BIAS
from inference.engine.canvas.layout import CanvasHole
from inference.engine.canvas.results import FilledCanvas, RankedFill, TokenTexts
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.fim.prompt import FimPrompt
from inference.engine.loaded_model import LoadedModel
from inference.models.family import FimPrefixHandle, common_prefix_length

_LAST_WORD = re.compile(rb"[\w\x80-\xff]+\Z")
_LAST_WORD_PART = re.compile(rb"(?:[A-Z]+|[A-Z]?[a-z]+)?\Z")
"""`retu`, or `Inde` of `firstInde`: a half-typed part often has several tokens, the whole part a single other one."""
_NUM_ALTERNATIVES = 4
"""How many of the likeliest tokens to remember at each position."""
_MIN_LOOP_TOKENS = 48
_MAX_LOOP_PERIOD = 8
"""Stop a text whose last `_MIN_LOOP_TOKENS` tokens repeat with a period of at most `_MAX_LOOP_PERIOD`."""
_PREFILL_CHUNK_TOKENS = 64
"""How many required tokens to prefill per pass."""
_MAX_NGRAM = 4
_MIN_NGRAM = 2
_MAX_DRAFT, _MAX_LOOKUP = 8, 3
"""The most draft tokens per pass, of an earlier output and of the prompt. More from the prompt cost more than they save
(8 lines took 7.2 s without any, 5.2 s with 3, 6.8 s with 8); an earlier output is right more often.
"""
_TIGHT = (b".", b"::", b"@")
"""No white space follows these where text is missing."""
_DEPTH_PENALTY_NATS = 2.0
"""Penalty per level of branching. Without it, most alternatives differ only in a comment."""
_TRIES_PER_TEXT = 2
"""Decode at most this many times as many texts as requested, since some turn out the same."""


class TokenChoice(NamedTuple):
    """A token, its log-probability among the allowed ones, and the likeliest alternatives with theirs."""

    id: int
    logprob: float
    alternatives: tuple[tuple[int, float], ...] = ()


@dataclass
class Branch:
    """One decoded continuation: `ids` are its tokens after the prompt; the first `num_forced` of them were required.

    `choices` has one entry per decoded token, including the stop token.
    """

    prompt: FimPrompt
    ids: list[int]
    num_forced: int
    data: bytes
    choices: list[TokenChoice] = field(default_factory=list)
    is_finished: bool = False

    @classmethod
    def from_forced(cls, vocabulary: Vocabulary, prompt: FimPrompt) -> "Branch":
        """Starts with the forced tokens before the last part of a word; the rest, at least one, is decoded again."""
        ids = vocabulary.encode(prompt.forced_start.decode())[:-1]
        forced_prefix = _LAST_WORD_PART.sub(b"", prompt.forced_start, count=1)
        while not forced_prefix.startswith(data := vocabulary.bytes_of(ids)):  # or a tokenizer changed the text
            ids.pop()
        return cls(prompt, ids, len(ids), data)

    @classmethod
    def from_existing(cls, vocabulary: Vocabulary, prompt: FimPrompt, text: str) -> tuple["Branch", list[int]]:
        """Starts with the text before the hole on its line; also returns the tokens of the hole's current text."""
        line = prompt.forced_start[: prompt.healed_bytes]
        ids = vocabulary.encode(line.decode() + text)
        count = len(ids)
        while len(vocabulary.bytes_of(ids[:count])) > len(line):
            count -= 1
        line_prompt = replace(prompt, forced_start=line, max_new_tokens=max(prompt.max_new_tokens, len(ids)))
        return cls(line_prompt, ids[:count], count, vocabulary.bytes_of(ids[:count])), ids[count:]

    @property
    def remaining_forced(self) -> bytes:
        """The part of the forced text that is not decoded yet."""
        return self.prompt.forced_start[len(self.data) :]

    @property
    def num_tokens(self) -> int:
        """The number of tokens chosen for the text; 0 until some of it is visible."""
        return len(self.ids) - self.num_forced if self.data[len(self.prompt.forced_start) :].strip() else 0

    @property
    def total_logprob(self) -> float:
        return sum(choice.logprob for choice in self.choices)

    @property
    def mean_logprob(self) -> float:
        """The mean log-probability of a choice."""
        return self.total_logprob / max(1, len(self.choices))

    @property
    def text(self) -> str:
        return self.prompt.text(self.data, ended=self.is_finished)

    def end_early(self, *, drops_word: bool = False) -> None:
        """Ends the text early, without its unfinished part: the last of several lines, or the last word of a line."""
        self.is_finished = True
        start = max(self.prompt.healed_bytes, len(self.prompt.forced_start))
        tail = self.data[start:]
        if not self.prompt.single_line and b"\n" in tail.strip(b"\n"):
            tail = tail[: tail.rindex(b"\n")]
        elif drops_word:
            tail = _LAST_WORD.sub(b"", tail).rstrip(b" \t") or tail
        self.data = self.data[:start] + tail

    def truncated(self, vocabulary: Vocabulary, index: int) -> "Branch":
        """A copy that ends before the choice with this index."""
        ids = self.ids[: self.num_forced + index]
        return Branch(self.prompt, ids, self.num_forced, vocabulary.bytes_of(ids), self.choices[:index])

    def filled_canvas(self, steps: int = 0) -> FilledCanvas:
        probs = [1.0] * self.num_forced + [math.exp(choice.logprob) for choice in self.choices]
        return FilledCanvas(self.ids, probs, ((0, self.num_forced, len(self.ids)),), steps)

    def ranked_fill(self, vocabulary: Vocabulary, index: int, steps: int) -> RankedFill:
        tokens, canvas = len(self.ids) - self.num_forced, self.filled_canvas(steps)
        return RankedFill((self.text,), self.mean_logprob, tokens, index, canvas, (self.token_texts(vocabulary),))

    def token_texts(self, vocabulary: Vocabulary) -> TokenTexts:
        """The text of each token of the fill so far, and its probability; a single text for a chat turn.

        The text that the user typed counts as one token with probability 1.
        """
        prompt, text, canvas = self.prompt, self.text, self.filled_canvas()
        if prompt.query is not None:
            return (text,), (fmean(canvas.confidences or [1.0]),)
        pieces, confidences = canvas.token_texts(
            vocabulary, 0, CanvasHole(len(self.ids), num_healed_bytes=prompt.healed_bytes)
        )
        typed = prompt.fill_prefix + prompt.forced_start[prompt.healed_bytes :].decode()
        pieces, confidences = slice_pieces(0, len(text), (prompt.fill_prefix, *pieces), (1.0, *confidences))
        return merge_typed_piece(typed[: len(text)], pieces, confidences)


class PromptLookup:
    """N-gram index for prompt-lookup decoding: the latest position of each n-gram in the prompt and earlier outputs."""

    def __init__(self, ids: Sequence[int], previous_ids: Sequence[int] = ()) -> None:
        """`previous_ids`: the output of an earlier request with the prompt `ids`."""
        self._ids: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}
        self._num_prompt = len(ids)
        self.add([*ids, *previous_ids])

    def add(self, ids: Sequence[int]) -> None:
        for id_ in ids:
            count = len(self._ids)
            for size in range(_MIN_NGRAM, min(_MAX_NGRAM, count) + 1):
                self._ends[tuple(self._ids[count - size :])] = count
            self._ids.append(id_)

    def draft(self, tail: Sequence[int], max_tokens: int = _MAX_DRAFT) -> list[int]:
        """Returns up to this many draft tokens: those that followed the longest n-gram matching the end of `tail`."""
        for size in range(min(_MAX_NGRAM, len(tail)), _MIN_NGRAM - 1, -1):
            end = self._ends.get(tuple(tail[len(tail) - size :]))
            if end is not None:
                return self._ids[end : end + min(max_tokens, _MAX_LOOKUP if end < self._num_prompt else _MAX_DRAFT)]
        return []


class Decoder:
    """Works on the branches of one prompt, one at a time. Computes their common prefixes once."""

    def __init__(self, model: LoadedModel, context: FimPrefixHandle, forced: int, lookup: PromptLookup | None) -> None:
        """`context` holds the prompt and the `forced` tokens of all branches. Without `lookup`, nothing is drafted."""
        self._vocabulary = model.vocabulary
        self._context = context
        self._forced = forced
        self._lookup = lookup
        self._stop_ids = model.fim_adapter.stop_ids
        self._sorted_stop_ids = sorted(self._stop_ids)
        self._device = model.adapter.device
        self._text_or_stop_bias = model.constraint_builder.text_bias.clone()
        self._text_or_stop_bias[self._sorted_stop_ids] = 0.0
        self._fed_ids: list[int] = []
        self._capacity = -1
        self._max_draft_tokens = min(_MAX_DRAFT, max(1, model.traits.free_rows - 1))
        self.passes = 0

    def decode_branch(self, branch: Branch) -> Iterator[None]:
        """Decodes a branch to its end. Each `next` is a forward pass; the caller may change the branch then."""
        while not branch.is_finished:
            self.step(branch)
            yield

    @torch.inference_mode()
    def step(self, branch: Branch) -> None:
        """Makes one forward pass: appends the accepted draft tokens and the token after them."""
        drafted = self._draft(branch)
        for index, logits in enumerate(self._forward(branch, drafted)):
            choice = self._choose(logits, branch)
            self._append(branch, choice)
            if branch.is_finished or drafted[index : index + 1] != [choice.id]:
                break

    def append_forced(self, branch: Branch, ids: Sequence[int]) -> Iterator[None]:
        """Appends required tokens and records their log-probabilities. Each `next` is a forward pass."""
        for first in range(0, len(ids), _PREFILL_CHUNK_TOKENS):
            chunk = list(ids[first : first + _PREFILL_CHUNK_TOKENS])
            for id_, logits in zip(chunk, self._forward(branch, chunk), strict=False):
                branch.choices.append(self._choose(logits, branch, id_))
                branch.ids.append(id_)
                branch.data += self._vocabulary.bytes_of([id_])
            yield

    def add_alternatives(self, branches: list[Branch], num_texts: int, first: int = 0) -> Iterator[Branch]:
        """Decodes alternatives until `branches` has `num_texts` different texts, each branching off an earlier one at
        or after choice `first`. Each `next` makes a forward pass for the branch that it returns.
        """
        tie_breakers = count()
        queue: list[tuple[float, int, Branch, int, TokenChoice]] = []

        def add(branch: Branch, gap_nats: float, first: int) -> None:
            """Queues the branch points from choice `first` on of a branch `gap_nats` less likely than the best."""
            if self._lookup is not None:
                self._lookup.add(branch.ids)
            echoes_file_name = branch.prompt.ending.echoes_file_name
            is_named = echoes_file_name(branch.text)
            for index, choice in enumerate(branch.choices[first:], first):
                if is_named and echoes_file_name(branch.truncated(self._vocabulary, index).text):
                    break  # whatever follows the name
                for id_, logprob in choice.alternatives:
                    gap = gap_nats + choice.logprob - logprob
                    heapq.heappush(queue, (gap, next(tie_breakers), branch, index, TokenChoice(id_, logprob)))

        add(branches[0], 0.0, first)
        texts = {branches[0].text}
        for _ in range(_TRIES_PER_TEXT * num_texts):
            if not queue or len(branches) >= num_texts:
                break
            gap_nats, _, parent, index, choice = heapq.heappop(queue)
            branch = parent.truncated(self._vocabulary, index)
            self._append(branch, choice)
            for _ in self.decode_branch(branch):
                yield branch
            add(branch, gap_nats + _DEPTH_PENALTY_NATS, index + 1)
            if branch.text.strip() and branch.text not in texts:
                texts.add(branch.text)
                branches.append(branch)

    @torch.inference_mode()
    def end_logprob(self, branch: Branch) -> float:
        """The log-probability that the text ends where the branch does now. One forward pass."""
        logprobs = (self._forward(branch, [])[0] + self._text_or_stop_bias).log_softmax(-1)
        stop_ids = self._sorted_stop_ids + (self._vocabulary.line_break_ids if branch.prompt.single_line else [])
        return float(logprobs[stop_ids].logsumexp(-1))

    def _draft(self, branch: Branch) -> list[int]:
        limit = min(self._max_draft_tokens, branch.prompt.max_new_tokens - len(branch.choices) - 1)
        if self._lookup is None or limit <= 0:
            return []
        tail = [*branch.prompt.ids[-3:], *branch.ids][-4:]
        drafted = self._lookup.draft(tail, limit)
        forced = branch.remaining_forced
        first = self._vocabulary.bytes_of(drafted[:1])
        return drafted if first.startswith(forced) or forced.startswith(first) else []

    @torch.inference_mode()
    def _forward(self, branch: Branch, next_ids: Sequence[int]) -> Tensor:
        """(1 + len(next_ids), V) logits after the branch and after each of `next_ids`, which stay in the cache."""
        ids = branch.ids[self._forced :]
        slack_tokens = branch.prompt.max_new_tokens + _MAX_DRAFT
        num_cached = min(common_prefix_length(self._fed_ids, ids), len(ids) - 1)
        if num_cached < 0 or len(ids) + len(next_ids) > self._capacity:
            self._capacity = len(ids) + len(next_ids) + slack_tokens
            self._continuation = self._context.continuation(self._capacity)
            self._fed_ids = []
            num_cached = 0
        elif num_cached < len(self._fed_ids):
            self._continuation.rollback(len(self._fed_ids) - num_cached)
        new = [*ids[num_cached:], *next_ids]
        self._fed_ids = [*self._fed_ids[:num_cached], *new]
        self.passes += 1
        fed = torch.tensor([new], dtype=torch.long, device=self._device)
        if not next_ids:
            return self._continuation.decode(fed)
        return self._continuation.verify(fed)[0, -1 - len(next_ids) :]

    @torch.inference_mode()
    def _choose(self, logits: Tensor, branch: Branch, id_: int | None = None) -> TokenChoice:
        """The likeliest allowed token, or the token `id_`, by its (V,) logits."""
        logprobs = (logits + self._bias(branch)).log_softmax(-1)
        best = logprobs.topk(_NUM_ALTERNATIVES)
        likeliest = list(zip(best.indices.tolist(), best.values.tolist(), strict=True))
        chosen = likeliest[0] if id_ is None else (id_, max(FORBIDDEN_BIAS, float(logprobs[id_])))
        alternatives = tuple(pair for pair in likeliest if pair[0] != chosen[0] and pair[1] > FORBIDDEN_BIAS / 2)
        return TokenChoice(chosen[0], chosen[1], alternatives)

    def _bias(self, branch: Branch) -> Tensor:
        """(V,) for the logits: only tokens that agree with the forced text; then any text, or its end after some."""
        forced = branch.remaining_forced
        minimum = branch.prompt.min_tokens
        bias = self._text_or_stop_bias
        if forced:
            ids = self._vocabulary.ids_compatible_with(forced)
            bias = torch.full_like(bias, FORBIDDEN_BIAS)
            bias[ids] = self._text_or_stop_bias[ids]
        if branch.num_tokens >= minimum:
            return bias
        bias = bias.clone()
        bias[self._sorted_stop_ids] = FORBIDDEN_BIAS
        is_tight = branch.prompt.forced_start.endswith(_TIGHT)
        if branch.prompt.single_line or is_tight:
            vocabulary = self._vocabulary
            blank = (
                vocabulary.line_breaking_ids(ids, len(forced), or_space=is_tight)
                if forced
                else vocabulary.all_line_breaking_ids[is_tight]
            )
            bias[blank] = FORBIDDEN_BIAS
        return bias

    def _append(self, branch: Branch, choice: TokenChoice) -> None:
        branch.choices.append(choice)
        if choice.id in self._stop_ids:
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
            branch.end_early(drops_word=branch.prompt.is_prose)


def _is_looping(ids: Sequence[int]) -> bool:
    """Whether the text has repeated the same few tokens for so long that it will not stop."""
    last = ids[-_MIN_LOOP_TOKENS:]
    return len(last) == _MIN_LOOP_TOKENS and any(
        last[period:] == last[:-period] for period in range(1, _MAX_LOOP_PERIOD + 1)
    )
