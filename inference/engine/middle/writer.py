"""Writes texts behind one prompt, the likeliest token each time, and verifies guesses of the next ones on the way.

It forgets rows of wrong guesses, so the text is the same with and without them (Stern et al., 2018,
https://arxiv.org/abs/1811.03115). Guesses are the tokens that followed the same tokens earlier, in the prompt or in the
text (prompt lookup decoding: Saxena, 2023, https://github.com/apoorvumang/prompt-lookup-decoding).
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from inference.engine.canvas.constraints import FORBIDDEN
from inference.engine.loaded_model import LoadedModel
from inference.engine.middle.branch import Branch, Choice, End
from inference.models.family import Context, MiddleFamily, common_start

_OTHERS = 4
"""Remember this many of the likeliest tokens at each place."""
_LONGEST_LOOP, _LOOPED = 48, 8
"""Stops a text that repeats the same few tokens, at most this many, for this many tokens."""
_READ_TOKENS = 64
"""Read this many tokens of a given text per pass."""
_LONGEST_RUN, _SHORTEST_RUN = 4, 2
_MOST_GUESSED = 8


class Lookup:
    """The places of all short runs of tokens read or written so far. The latest of each counts."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}
        self.add(ids)

    def add(self, ids: Sequence[int]) -> None:
        """Adds these tokens as a source of guesses."""
        for id_ in ids:
            count = len(self._ids)
            for size in range(_SHORTEST_RUN, min(_LONGEST_RUN, count) + 1):
                self._ends[tuple(self._ids[count - size :])] = count
            self._ids.append(id_)

    def guess(self, tail: Sequence[int], most: int = _MOST_GUESSED) -> list[int]:
        """At most this many tokens that followed the longest known run at the end of `tail`."""
        for size in range(min(_LONGEST_RUN, len(tail)), _SHORTEST_RUN - 1, -1):
            place = self._ends.get(tuple(tail[len(tail) - size :]))
            if place is not None:
                return self._ids[place : place + most]
        return []


class Writer:
    """Works on the branches of one prompt, one at a time. Computes their common prefixes once."""

    def __init__(
        self, model: LoadedModel, family: MiddleFamily, context: Context, forced: int, lookup: Lookup | None
    ) -> None:
        """`context` has read the prompt and the `forced` tokens of all branches. `lookup` None: no guesses."""
        self._vocabulary, self._context, self._forced, self._lookup = model.vocabulary, context, forced, lookup
        self._end_ids, self._ends, self._device = family.end_ids, sorted(family.end_ids), family.device
        self._any = model.constraints.text.clone()
        self._any[self._ends] = 0.0
        self._fed: list[int] = []
        self._room = -1
        self._most = min(_MOST_GUESSED, max(1, model.traits.free_rows - 1))
        """Too many rows cost more than they save: 8 lines took 7.2 s without guesses, 5.2 s with 3, 6.8 s with 8."""
        self.passes = 0

    def write(self, branch: Branch) -> Iterator[None]:
        """Writes a branch to its end; each `next` is a forward pass, after which it may be changed or left."""
        while branch.end is None:
            self.step(branch)
            yield

    @torch.inference_mode()
    def step(self, branch: Branch) -> None:
        """One forward pass: the next token, and the correct guesses behind it."""
        guessed = self._guess(branch)
        for place, row in enumerate(self._rows(branch, guessed)):
            choice = self._choice(row, branch)
            self._take(branch, choice)
            if branch.end is not None or guessed[place : place + 1] != [choice.id]:
                break

    def read(self, branch: Branch, ids: Sequence[int]) -> Iterator[None]:
        """Continues the branch with given tokens and records how likely each was. Each `next` is a forward pass."""
        for first in range(0, len(ids), _READ_TOKENS):
            given = list(ids[first : first + _READ_TOKENS])
            for id_, row in zip(given, self._rows(branch, given), strict=False):
                branch.choices.append(self._choice(row, branch, id_))
                branch.ids.append(id_)
                branch.data += self._vocabulary.bytes_of([id_])
            yield

    def follow(self, branch: Branch, choice: Choice) -> None:
        """Adds a choice to a truncated branch, without a pass."""
        branch.data = self._vocabulary.bytes_of(branch.ids)
        self._take(branch, choice)

    @torch.inference_mode()
    def log_end(self, branch: Branch) -> float:
        """The log-probability that the text ends where the branch does now. One forward pass."""
        chances = (self._rows(branch, [])[0] + self._any).log_softmax(-1)
        ends = self._ends + (self._vocabulary.line_break_ids if branch.asked.single_line else [])
        return float(chances[ends].logsumexp(-1))

    def _guess(self, branch: Branch) -> list[int]:
        """What may come next."""
        most = min(self._most, branch.asked.room - len(branch.choices) - 1)
        if self._lookup is None or most <= 0:
            return []
        guessed, rest = self._lookup.guess([*branch.asked.prompt_ids[-3:], *branch.ids][-4:], most), branch.rest
        first = self._vocabulary.bytes_of(guessed[:1])
        return guessed if first.startswith(rest) or rest.startswith(first) else []

    @torch.inference_mode()
    def _rows(self, branch: Branch, more: Sequence[int]) -> Tensor:
        """(1 + len(more), V) logits after the branch and after each of `more`. Keeps the fed tokens."""
        ids, room = branch.ids[self._forced :], branch.asked.room + _MOST_GUESSED
        known = min(common_start(self._fed, ids), len(ids) - 1)
        if known < 0 or len(ids) + len(more) > self._room:
            self._room = len(ids) + len(more) + room
            self._continuation, self._fed, known = self._context.continuation(1, self._room), [], 0
        elif known < len(self._fed):
            self._continuation.trim(len(self._fed) - known)
        new = [*ids[known:], *more]
        self._fed = [*self._fed[:known], *new]
        self.passes += 1
        fed = torch.tensor([new], dtype=torch.long, device=self._device)
        if not more:
            return self._continuation.feed(fed)
        return self._continuation.feed_rows(fed)[0, -1 - len(more) :]

    @torch.inference_mode()
    def _choice(self, row: Tensor, branch: Branch, id_: int | None = None) -> Choice:
        """The likeliest allowed token, or the given one."""
        chances = (row + self._bias(branch)).log_softmax(-1)
        best = chances.topk(_OTHERS)
        likeliest = list(zip(best.indices.tolist(), best.values.tolist(), strict=True))
        chosen = likeliest[0] if id_ is None else (id_, max(FORBIDDEN, float(chances[id_])))
        others = tuple(each for each in likeliest if each[0] != chosen[0] and each[1] > FORBIDDEN / 2)
        return Choice(chosen[0], chosen[1], others)

    def _bias(self, branch: Branch) -> Tensor:
        """(V,): text, plus its end once there is some; first of all the given tokens."""
        rest, minimum = branch.rest, branch.asked.minimum
        bias = self._any
        if rest:
            ids = self._vocabulary.agreeing_with(rest)
            bias = torch.full_like(bias, FORBIDDEN)
            bias[ids] = self._any[ids]
        if branch.tokens >= minimum:
            return bias
        bias = bias.clone()
        bias[self._ends] = FORBIDDEN
        if branch.asked.single_line:
            breaks = self._vocabulary.line_break_ids
            bias[breaks if branch.tokens + 1 < minimum else self._vocabulary.breaks_in(breaks, len(rest))] = FORBIDDEN
        return bias

    def _take(self, branch: Branch, choice: Choice) -> None:
        branch.choices.append(choice)
        if choice.id in self._end_ids:
            branch.stop(End.TEXT)
            return
        last = self._vocabulary.bytes_of([choice.id])
        branch.ids.append(choice.id)
        branch.data += last
        end = branch.asked.end_in(branch.data, last)
        if end is not None:
            branch.data = branch.data[:end]
            branch.stop(End.TEXT)
        elif len(branch.choices) >= branch.asked.room or _loops(branch.ids):
            branch.stop(End.ROOM)


def _loops(ids: Sequence[int]) -> bool:
    """Whether the text has repeated the same few tokens for so long that nothing else will come."""
    last = ids[-_LONGEST_LOOP:]
    return len(last) == _LONGEST_LOOP and any(last[period:] == last[:-period] for period in range(1, _LOOPED + 1))
