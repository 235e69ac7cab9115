"""A prompt read in pieces, the text the model writes behind it, and what is kept of both for the next request."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inference.models.family import MiddleContext, common_start
from inference.models.fim.network import SPARE_TOKENS, Network, PrefixRows

PIECE_TOKENS = 128
"""Read in one pass, some tenths of a second on a laptop: a cancelled request runs on for that long."""
_SCORED_TOKENS = 32
"""The most rows of logits in memory at a time while scoring a text."""
_KEPT_PROMPTS = 8
_KEPT_BYTES = 32 << 20
_SAME_TEXT = 0.5
"""Kept tokens that a new prompt shares less of belong to another text: copy from them instead of cutting them."""

OnPass = Callable[[int, float], None]
"""Receives the number of rows of a pass and its seconds."""


@dataclass(eq=False)
class Prompt:
    """The rows of one sequence, and their tokens. One context at a time reads and extends it.

    What was read ahead, for prompts to come, they copy: each would cut it where it ends itself.
    """

    rows: PrefixRows
    ids: list[int]
    is_open: bool = True
    is_ahead: bool = False

    def cut(self, length: int) -> None:
        """Forgets all tokens but the first `length`."""
        self.rows.length = length
        del self.ids[length:]


class Prompts:
    """The latest prompts with what was written behind them: at most eight, and 32 MB beside what is being read.

    One more has been read ahead.
    """

    def __init__(self, empty: PrefixRows) -> None:
        """`empty`: rows of the network's shape, without room."""
        self._empty = empty
        self._kept: list[Prompt] = []
        """The least recently used first."""

    def known(self, ids: Sequence[int]) -> int:
        """How many of the first `ids` are known."""
        return max((common_start(each.ids, ids) for each in self._kept), default=0)

    def written_behind(self, ids: Sequence[int]) -> list[int]:
        """The tokens last known behind all of `ids`."""
        count, known = len(ids), list(ids)
        return next((each.ids[count:] for each in reversed(self._kept) if each.ids[:count] == known), [])

    def take(self, ids: Sequence[int], *, ahead: bool = False) -> Prompt:
        """The known part of `ids`, all of it their beginning, with room for the rest. The caller must give it back.

        `ahead`: it takes the place of what was read ahead until now.
        """
        best = max(self._kept, key=lambda each: (common_start(each.ids, ids), each.is_ahead == ahead), default=None)
        shared = 0 if best is None else common_start(best.ids, ids)
        if best is None or best.is_open or best.is_ahead != ahead or shared < _SAME_TEXT * len(best.ids):
            source = self._empty if best is None else best.rows
            best = Prompt(source.copied(shared, len(ids) + SPARE_TOKENS), list(ids[:shared]), is_ahead=ahead)
            if ahead:
                self._kept = [each for each in self._kept if not each.is_ahead]
        else:
            self._kept.remove(best)
            best.is_open = True
            best.cut(shared)
            best.rows.reserve(len(ids))
        self._kept.append(best)
        return best

    def give_back(self, prompt: Prompt) -> None:
        """The prompt is no longer being read."""
        prompt.is_open = False
        idle = [each for each in self._kept if not each.is_open and not each.is_ahead]
        while len(idle) > 1 and (len(idle) > _KEPT_PROMPTS or self.size_bytes() > _KEPT_BYTES):
            self._kept.remove(idle.pop(0))

    def size_bytes(self) -> int:
        """The memory of all of them."""
        return sum(each.rows.content.nbytes for each in self._kept)


class PromptContext(MiddleContext):
    """A `Context`: the rows of a prompt. Its last piece is read in the pass that writes the first token."""

    def __init__(
        self, network: Network, prompts: Prompts, ids: Sequence[int], on_pass: OnPass, *, ahead: bool = False
    ) -> None:
        """`ahead`: nothing will be written behind it, so all is read but the last token."""
        self._network = network
        self._prompts = prompts
        self._on_pass = on_pass
        self._ids = list(ids)
        self._prompt: Prompt | None = prompts.take(ids[:-1], ahead=ahead)
        self.reused_tokens = len(self._prompt.ids)
        unread = len(self._ids) - 1 - self.reused_tokens
        self._last_piece = 0 if ahead else min(unread, (unread - 1) % PIECE_TOKENS + 1)
        self._writer: PromptContinuation | None = None

    def encode(self) -> Iterator[int]:
        """See `Context`. Leaves the last piece and the last token to the first request."""
        return self._read(len(self._ids) - 1 - self._last_piece)

    def _read(self, end: int) -> Iterator[int]:
        prompt = self._open
        while (done := len(prompt.ids)) < end:
            piece = self._ids[done : min(end, done + PIECE_TOKENS)]
            _pass(self._network, torch.tensor([piece], device=self._network.device), prompt.rows, 0, self._on_pass)
            prompt.ids += piece
            yield end - len(prompt.ids)

    def _read_all(self) -> int:
        """Reads all but the last token; how many tokens that are."""
        end = len(self._ids) - 1
        deque(self._read(end), maxlen=0)
        return max(0, end)

    @torch.inference_mode()
    def log_probabilities(self, continuations: Sequence[Sequence[int]]) -> list[Tensor]:
        """See `Context`. One pass for each."""
        return [self._scored(ids) for ids in continuations]

    def _scored(self, ids: Sequence[int]) -> Tensor:
        before = self._read_all()
        fed = torch.tensor([[*self._ids[before:], *ids]], device=self._network.device)
        if fed.shape[1] < 2:
            return torch.empty(0, device=self._network.device)
        rows = self._open.rows.copied(before, before + fed.shape[1])
        hidden = self._network.forward(fed[:, :-1], rows, fed.shape[1] - 1)[0]
        found = []
        for first in range(0, len(hidden), _SCORED_TOKENS):
            chances = self._network.logits(hidden[first : first + _SCORED_TOKENS]).log_softmax(-1)
            found.append(chances.gather(1, fed[0, first + 1 : first + 1 + len(chances), None])[:, 0])
        return torch.cat(found)

    def continuation(self, room_tokens: int) -> "PromptContinuation":
        """See `Context`. Later contexts know the output of the first one; a second one works on a copy."""
        prompt, length = self._open, len(self._ids) + room_tokens
        if self._writer is None:
            prompt.rows.reserve(length)
            pending = self._ids[len(prompt.ids) :]
            self._writer = PromptContinuation(self._network, prompt.rows, pending, self._on_pass, prompt)
            return self._writer
        before = self._read_all()
        return PromptContinuation(self._network, prompt.rows.copied(before, length), self._ids[before:], self._on_pass)

    def close(self) -> None:
        if self._prompt is not None:
            self._prompts.give_back(self._prompt)
        self._prompt = None

    @property
    def _open(self) -> Prompt:
        assert self._prompt is not None, "the context is closed"
        return self._prompt


class PromptContinuation:
    """A `Continuation`. `prompt` learns what it feeds; None: it is not recorded."""

    def __init__(
        self, network: Network, rows: PrefixRows, last: list[int], on_pass: OnPass, prompt: Prompt | None = None
    ) -> None:
        self._network = network
        self._rows = rows
        self._on_pass = on_pass
        self._prompt = prompt
        self._pending = torch.tensor([last], dtype=torch.long, device=network.device)

    @torch.inference_mode()
    def feed(self, ids: Tensor) -> Tensor:
        return self._fed(ids, 1)[:, -1]

    @torch.inference_mode()
    def feed_rows(self, ids: Tensor) -> Tensor:
        """See `Continuation`.

        In float32 a row is the same, but for rounding in the last bits, whether it is fed alone or among others. In 8
        bits its products are the same, bit for bit: with `Dynamic` among any number, otherwise among up to `Speed.few`
        rows. Attention still rounds differently there. Where that is coarse, as in bfloat16, two nearly equally likely
        tokens may change places.
        """
        return self._fed(ids, ids.shape[1] + (self._pending.shape[1] > 0))

    def trim(self, count: int) -> None:
        self._rows.length -= count
        if self._prompt is not None:
            self._prompt.cut(self._rows.length)

    def _fed(self, ids: Tensor, wanted: int) -> Tensor:
        fed = torch.cat([self._pending, ids.to(self._pending.device)], 1)
        self._pending = self._pending[:, :0]
        self._rows.reserve(self._rows.length + fed.shape[1])
        logits = _pass(self._network, fed, self._rows, wanted, self._on_pass)
        if self._prompt is not None:
            self._prompt.ids += fed[0].tolist()
        return logits


def _pass(network: Network, ids: Tensor, rows: PrefixRows, wanted: int, on_pass: OnPass) -> Tensor:
    """Appends tokens (B, n); the logits (B, wanted, V) after the last of them."""
    began = time.perf_counter()
    hidden = network.forward(ids, rows, wanted)
    logits = network.logits(hidden) if wanted else hidden
    on_pass(ids.shape[1], time.perf_counter() - began)
    return logits
