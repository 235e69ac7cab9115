"""A prompt read in pieces, the text the model writes behind it, and what is kept of both for the next request."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from inference.models.family import MiddleContext, common_start
from inference.models.fim.network import SPARE_TOKENS, Network, Prompt

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


class Prompts:
    """The latest prompts with what was written behind them: at most eight, and 32 MB beside what is being read.

    One more has been read ahead.
    """

    def __init__(self, empty: Prompt) -> None:
        """`empty`: one of the network's shape."""
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
            best = (best or self._empty).copied(shared, len(ids) + SPARE_TOKENS)
            best.is_ahead = ahead
            if ahead:
                self._kept = [each for each in self._kept if not each.is_ahead]
        else:
            self._kept.remove(best)
            best.is_open = True
            del best.ids[shared:]
            best.reserve(len(ids))
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
        return sum(each.content.nbytes for each in self._kept)


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
        self._is_continued = False

    def encode(self) -> Iterator[int]:
        """See `Context`. Leaves the last piece and the last token to the first request."""
        return self._read(len(self._ids) - 1 - self._last_piece)

    def _read(self, end: int) -> Iterator[int]:
        prompt = self._open
        while (done := len(prompt.ids)) < end:
            piece = self._ids[done : min(end, done + PIECE_TOKENS)]
            _pass(self._network, torch.tensor([piece], device=self._network.device), prompt, 0, self._on_pass)
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
        copy = self._open.copied(before, before + fed.shape[1])
        hidden = self._network.forward(fed[:, :-1], copy, fed.shape[1] - 1)[0]
        found = []
        for first in range(0, len(hidden), _SCORED_TOKENS):
            chances = self._network.logits(hidden[first : first + _SCORED_TOKENS]).log_softmax(-1)
            found.append(chances.gather(1, fed[0, first + 1 : first + 1 + len(chances), None])[:, 0])
        return torch.cat(found)

    def continuation(self, room_tokens: int) -> "PromptContinuation":
        """See `Context`. Later contexts know the output of the first one; a second one works on a copy."""
        prompt, length = self._open, len(self._ids) + room_tokens
        if self._is_continued:
            prompt = prompt.copied(self._read_all(), length)
        self._is_continued = True
        prompt.reserve(length)
        return PromptContinuation(self._network, prompt, self._ids[len(prompt.ids) :], self._on_pass)

    def close(self) -> None:
        if self._prompt is not None:
            self._prompts.give_back(self._prompt)
        self._prompt = None

    @property
    def _open(self) -> Prompt:
        assert self._prompt is not None, "the context is closed"
        return self._prompt


class PromptContinuation:
    """A `Continuation` of a prompt, which learns what it feeds."""

    def __init__(self, network: Network, prompt: Prompt, last: list[int], on_pass: OnPass) -> None:
        self._network = network
        self._prompt = prompt
        self._on_pass = on_pass
        self._pending = torch.tensor([last], dtype=torch.long, device=network.device)

    @torch.inference_mode()
    def feed(self, ids: Tensor) -> Tensor:
        return self._fed(ids, 1)[:, -1]

    @torch.inference_mode()
    def feed_rows(self, ids: Tensor) -> Tensor:
        """See `Continuation`.

        In float32 a row is the same, but for rounding in the last bits, whether it is fed alone or among others. In 8
        bits its products are the same, bit for bit: with `Dynamic` among any number, otherwise among up to
        `formats.Speed.few_rows`. Attention still rounds differently there. Where that is coarse, as in bfloat16, two
        nearly equally likely tokens may change places.
        """
        return self._fed(ids, ids.shape[1] + (self._pending.shape[1] > 0))

    def trim(self, count: int) -> None:
        del self._prompt.ids[len(self._prompt.ids) - count :]

    def _fed(self, ids: Tensor, wanted: int) -> Tensor:
        fed = torch.cat([self._pending, ids.to(self._pending.device)], 1)
        self._pending = self._pending[:, :0]
        self._prompt.reserve(len(self._prompt.ids) + fed.shape[1])
        return _pass(self._network, fed, self._prompt, wanted, self._on_pass)


def _pass(network: Network, ids: Tensor, prompt: Prompt, wanted: int, on_pass: OnPass) -> Tensor:
    """Appends tokens (1, n); the logits (1, wanted, V) after the last of them."""
    began = time.perf_counter()
    hidden = network.forward(ids, prompt, wanted)
    logits = network.logits(hidden) if wanted else hidden
    on_pass(ids.shape[1], time.perf_counter() - began)
    return logits
