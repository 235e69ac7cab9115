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

from inference.engine.canvas.answered import RankedFill, Written
from inference.engine.canvas.batch import FORBIDDEN
from inference.engine.canvas.layout import Slots
from inference.engine.canvas.vocabulary import Vocabulary
from inference.engine.fim.prompt import HolePrompt
from inference.engine.loaded_model import LoadedModel
from inference.models.family import FimPrefixHandle, common_start

_LAST_WORD = re.compile(rb"[\w\x80-\xff]+\Z")
_OTHERS = 4
"""Remember this many of the likeliest tokens at each place."""
_LONGEST_LOOP = 48
_LOOPED = 8
"""Stops a text that repeats the same few tokens, at most this many, for this many tokens."""
_READ_TOKENS = 64
"""Read this many tokens of a given text per pass."""
_LONGEST_RUN = 4
_SHORTEST_RUN = 2
_MOST_GUESSED, _MOST_LOOKED_UP = 8, 3
"""More guesses from the prompt cost more than they save: 8 lines took 7.2 s without, 5.2 s with 3, 6.8 s with 8. What
was written in the same place before is right more often.
"""
_DEEPER = 2.0
"""A branch of a branch counts as this much less likely, in nats: otherwise most would differ only in a comment."""
_TRIES = 2
"""Write at most this many times the number of wanted texts, since some turn out the same."""


class Choice(NamedTuple):
    """A token, its log-probability among the allowed ones, and the likeliest alternatives with theirs."""

    id: int
    chance: float
    others: tuple[tuple[int, float], ...] = ()


@dataclass
class Beam:
    """One text: `ids` behind the prompt, the first `forced` of them given. Its choices include the one that ends it."""

    prompt: HolePrompt
    ids: list[int]
    forced: int
    data: bytes
    choices: list[Choice] = field(default_factory=list)
    is_over: bool = False

    @classmethod
    def given(cls, vocabulary: Vocabulary, prompt: HolePrompt) -> "Beam":
        """Only the given tokens, minus the last, which is decoded again."""
        ids = vocabulary.encode(prompt.given.decode())[:-1]
        while not prompt.given.startswith(data := vocabulary.bytes_of(ids)):  # a tokenizer that changes text
            ids.pop()
        return cls(prompt, ids, len(ids), data)

    @classmethod
    def standing(cls, vocabulary: Vocabulary, prompt: HolePrompt, text: str) -> tuple["Beam", list[int]]:
        """Only the text in front of a hole on its line, and the tokens of the hole's current text to read behind it."""
        line = prompt.given[: prompt.skip]
        ids = vocabulary.encode(line.decode() + text)
        count = len(ids)
        while len(vocabulary.bytes_of(ids[:count])) > len(line):
            count -= 1
        here = replace(prompt, given=line, room=max(prompt.room, len(ids)))
        return cls(here, ids[:count], count, vocabulary.bytes_of(ids[:count])), ids[count:]

    @property
    def rest(self) -> bytes:
        """The given tokens that are not written yet."""
        return self.prompt.given[len(self.data) :]

    @property
    def tokens(self) -> int:
        """The number of tokens chosen for the text; 0 until some of it is visible."""
        return len(self.ids) - self.forced if self.data[len(self.prompt.given) :].strip() else 0

    @property
    def total(self) -> float:
        return sum(choice.chance for choice in self.choices)

    @property
    def score(self) -> float:
        """The mean log-probability of a choice."""
        return self.total / max(1, len(self.choices))

    @property
    def text(self) -> str:
        return self.prompt.text(self.data, ended=self.is_over)

    def cut(self, *, is_late: bool = False) -> None:
        """Ends it early. Drops what is half-written: the last of several lines, the last word of a late line."""
        self.is_over = True
        start = max(self.prompt.skip, len(self.prompt.given))
        written = self.data[start:]
        if not self.prompt.single_line and b"\n" in written.strip(b"\n"):
            written = written[: written.rindex(b"\n")]
        elif is_late:
            written = _LAST_WORD.sub(b"", written).rstrip(b" \t") or written
        self.data = self.data[:start] + written

    def typed(self, text: str) -> bool:
        """Makes the fill begin with `text` from now on. False if it does not, and the given tokens cannot change."""
        prompt = self.prompt
        if prompt.question is not None or not text.startswith(prompt.head):
            return self.text.startswith(text)
        given = prompt.given[: prompt.skip] + text[len(prompt.head) :].encode()
        self.prompt = replace(prompt, given=given)
        return self.data.startswith(given) or (not self.is_over and given.startswith(self.data))

    def until(self, vocabulary: Vocabulary, place: int) -> "Beam":
        """A copy that continues from before the choice of this number."""
        ids = self.ids[: self.forced + place]
        return Beam(self.prompt, ids, self.forced, vocabulary.bytes_of(ids), self.choices[:place])

    def written(self, steps: int = 0) -> Written:
        sure = [1.0] * self.forced + [math.exp(choice.chance) for choice in self.choices]
        return Written(self.ids, sure, ((0, self.forced, len(self.ids)),), steps)

    def ranked(self, number: int, steps: int) -> RankedFill:
        return RankedFill((self.text,), self.score, len(self.ids) - self.forced, number, self.written(steps))

    def pieces(self, vocabulary: Vocabulary) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """The fill so far as a text per token, and the model's confidence in each; a chat turn's as one text."""
        text, written = self.text, self.written()
        if self.prompt.question is not None or self.prompt.head:
            return (text,), (fmean(written.confidences or [1.0]),)
        found, chances = written.pieces(vocabulary, 0, Slots(len(self.ids), skip=self.prompt.skip))
        left = len(text)
        kept = []
        for piece in found:
            kept.append(piece[:left])
            left -= len(kept[-1])
        kept = [piece for piece in kept if piece]
        return tuple(kept), tuple(chances[: len(kept)])


class Lookup:
    """The places of all short runs of tokens read or written so far. The latest of each counts."""

    def __init__(self, ids: Sequence[int], written_ids: Sequence[int] = ()) -> None:
        """`written_ids`: what was written behind `ids` before."""
        self._ids: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}
        self._before = Lookup([*ids[-_LONGEST_RUN:], *written_ids]) if written_ids else None
        self.add(ids)

    def add(self, ids: Sequence[int]) -> None:
        """Adds these tokens as a source of guesses."""
        for id_ in ids:
            count = len(self._ids)
            for size in range(_SHORTEST_RUN, min(_LONGEST_RUN, count) + 1):
                self._ends[tuple(self._ids[count - size :])] = count
            self._ids.append(id_)

    def before(self, tail: Sequence[int], most: int) -> list[int]:
        """As `guess`, from what was written before."""
        return self._before.guess(tail, most) if self._before else []

    def guess(self, tail: Sequence[int], most: int = _MOST_GUESSED) -> list[int]:
        """At most this many tokens that followed the longest known run at the end of `tail`."""
        for size in range(min(_LONGEST_RUN, len(tail)), _SHORTEST_RUN - 1, -1):
            place = self._ends.get(tuple(tail[len(tail) - size :]))
            if place is not None:
                return self._ids[place : place + most]
        return []


class Decoder:
    """Works on the beams of one prompt, one at a time. Computes their common prefixes once."""

    def __init__(self, model: LoadedModel, context: FimPrefixHandle, forced: int, lookup: Lookup | None) -> None:
        """`context` has read the prompt and the `forced` tokens of all beams. `lookup` None: no guesses."""
        self._vocabulary = model.vocabulary
        self._context = context
        self._forced = forced
        self._lookup = lookup
        self._end_ids = model.middle.stop_ids
        self._ends = sorted(self._end_ids)
        self._device = model.family.device
        self._any = model.constraints.text.clone()
        self._any[self._ends] = 0.0
        self._fed: list[int] = []
        self._room = -1
        self._most = min(_MOST_GUESSED, max(1, model.traits.free_rows - 1))
        self.passes = 0

    def write(self, beam: Beam) -> Iterator[None]:
        """Writes a beam to its end; each `next` is a forward pass, after which it may be changed or left."""
        while not beam.is_over:
            self.step(beam)
            yield

    @torch.inference_mode()
    def step(self, beam: Beam) -> None:
        """One forward pass: the next token, and the correct guesses behind it."""
        guessed = self._guess(beam)
        for place, row in enumerate(self._rows(beam, guessed)):
            choice = self._choice(row, beam)
            self._take(beam, choice)
            if beam.is_over or guessed[place : place + 1] != [choice.id]:
                break

    def read(self, beam: Beam, ids: Sequence[int]) -> Iterator[None]:
        """Continues the beam with given tokens and records how likely each was. Each `next` is a forward pass."""
        for first in range(0, len(ids), _READ_TOKENS):
            given = list(ids[first : first + _READ_TOKENS])
            for id_, row in zip(given, self._rows(beam, given), strict=False):
                beam.choices.append(self._choice(row, beam, id_))
                beam.ids.append(id_)
                beam.data += self._vocabulary.bytes_of([id_])
            yield

    def further(self, found: list[Beam], wanted: int, first: int = 0) -> Iterator[None]:
        """Appends texts to the one `found`, up to `wanted` different ones. Each `next` is a forward pass.

        They leave it from its choice number `first` on, and each other.
        """
        numbers = count()
        left: list[tuple[float, int, Beam, int, Choice]] = []

        def add(beam: Beam, lost: float, first: int) -> None:
            """Others may leave `beam`, which is `lost` less likely than the first, from that choice on."""
            if self._lookup is not None:
                self._lookup.add(beam.ids)
            for place, choice in enumerate(beam.choices[first:], first):
                for id_, chance in choice.others:
                    entry = lost + choice.chance - chance, next(numbers), beam, place, Choice(id_, chance)
                    heapq.heappush(left, entry)

        add(found[0], 0.0, first)
        texts = {found[0].text}
        for _ in range(_TRIES * wanted):
            if not left or len(found) >= wanted:
                break
            lost, _, parent, place, choice = heapq.heappop(left)
            beam = parent.until(self._vocabulary, place)
            self._take(beam, choice)
            yield from self.write(beam)
            add(beam, lost + _DEEPER, place + 1)
            if beam.text.strip() and beam.text not in texts:
                texts.add(beam.text)
                found.append(beam)

    @torch.inference_mode()
    def log_end(self, beam: Beam) -> float:
        """The log-probability that the text ends where the beam does now. One forward pass."""
        chances = (self._rows(beam, [])[0] + self._any).log_softmax(-1)
        ends = self._ends + (self._vocabulary.line_break_ids if beam.prompt.single_line else [])
        return float(chances[ends].logsumexp(-1))

    def _guess(self, beam: Beam) -> list[int]:
        most = min(self._most, beam.prompt.room - len(beam.choices) - 1)
        if self._lookup is None or most <= 0:
            return []
        tail = [*beam.prompt.ids[-3:], *beam.ids][-4:]
        guessed = self._lookup.before(tail, most) or self._lookup.guess(tail, min(_MOST_LOOKED_UP, most))
        rest = beam.rest
        first = self._vocabulary.bytes_of(guessed[:1])
        return guessed if first.startswith(rest) or rest.startswith(first) else []

    @torch.inference_mode()
    def _rows(self, beam: Beam, more: Sequence[int]) -> Tensor:
        """(1 + len(more), V) logits after the beam and after each of `more`. Keeps the fed tokens."""
        ids = beam.ids[self._forced :]
        room = beam.prompt.room + _MOST_GUESSED
        known = min(common_start(self._fed, ids), len(ids) - 1)
        if known < 0 or len(ids) + len(more) > self._room:
            self._room = len(ids) + len(more) + room
            self._continuation = self._context.continuation(self._room)
            self._fed = []
            known = 0
        elif known < len(self._fed):
            self._continuation.rollback(len(self._fed) - known)
        new = [*ids[known:], *more]
        self._fed = [*self._fed[:known], *new]
        self.passes += 1
        fed = torch.tensor([new], dtype=torch.long, device=self._device)
        if not more:
            return self._continuation.decode(fed)
        return self._continuation.verify(fed)[0, -1 - len(more) :]

    @torch.inference_mode()
    def _choice(self, row: Tensor, beam: Beam, id_: int | None = None) -> Choice:
        """The likeliest allowed token, or the given one."""
        chances = (row + self._bias(beam)).log_softmax(-1)
        best = chances.topk(_OTHERS)
        likeliest = list(zip(best.indices.tolist(), best.values.tolist(), strict=True))
        chosen = likeliest[0] if id_ is None else (id_, max(FORBIDDEN, float(chances[id_])))
        others = tuple(each for each in likeliest if each[0] != chosen[0] and each[1] > FORBIDDEN / 2)
        return Choice(chosen[0], chosen[1], others)

    def _bias(self, beam: Beam) -> Tensor:
        """(V,): text, plus its end once there is some; first of all the given tokens."""
        rest = beam.rest
        minimum = beam.prompt.minimum
        bias = self._any
        if rest:
            ids = self._vocabulary.agreeing_with(rest)
            bias = torch.full_like(bias, FORBIDDEN)
            bias[ids] = self._any[ids]
        if beam.tokens >= minimum:
            return bias
        bias = bias.clone()
        bias[self._ends] = FORBIDDEN
        if beam.prompt.single_line:
            breaks = self._vocabulary.line_break_ids
            bias[breaks if beam.tokens + 1 < minimum else self._vocabulary.breaks_in(breaks, len(rest))] = FORBIDDEN
        return bias

    def _take(self, beam: Beam, choice: Choice) -> None:
        beam.choices.append(choice)
        if choice.id in self._end_ids:
            beam.is_over = True
            return
        last = self._vocabulary.bytes_of([choice.id])
        beam.ids.append(choice.id)
        beam.data += last
        end = beam.prompt.end_in(beam.data, last)
        if end is not None:
            beam.data = beam.data[:end]
            beam.is_over = True
        elif not beam.rest and (len(beam.choices) >= beam.prompt.room or _loops(beam.ids)):
            beam.cut()


def _loops(ids: Sequence[int]) -> bool:
    """Whether the text has repeated the same few tokens for so long that nothing else will come."""
    last = ids[-_LONGEST_LOOP:]
    return len(last) == _LONGEST_LOOP and any(last[period:] == last[:-period] for period in range(1, _LOOPED + 1))
