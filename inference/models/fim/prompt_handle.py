"""Prefills a prompt in chunks, decodes after it, and leaves both in the prefix cache for the next request."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from inference.models.family import FimPrefixHandle
from inference.models.fim.kept_suffix import KeptSuffixFinder
from inference.models.llama.causal import CausalNetwork, KvCache
from inference.models.prefix_cache import CachedPrefix, PrefixCache

CHUNK_TOKENS = 128
"""How many tokens to prefill per pass, which takes some tenths of a second on a laptop and cannot be interrupted."""
_SCORED_TOKENS = 32
"""The most rows of logits in memory at a time while scoring a text."""

OnPass = Callable[[int, int, float], None]
"""Receives the number of rows of a pass, the number of rows of logits that it computed, and its seconds."""


class PromptHandle(FimPrefixHandle):
    """A prompt. Its last chunk is read in the pass that decodes the first token."""

    def __init__(
        self,
        network: CausalNetwork,
        cache: PrefixCache[KvCache],
        ids: Sequence[int],
        on_pass: OnPass,
        *,
        keeper: KeptSuffixFinder | None = None,
        ahead: bool = False,
    ) -> None:
        """`ahead`: nothing will be decoded after the prompt, so all of it is prefilled."""
        self._network = network
        self._cache = cache
        self._on_pass = on_pass
        self._ids = list(ids)
        self._kept = kept = keeper.find(self._ids[:-1]) if keeper else None
        self._kept_rows: Any = None
        if kept:
            self._kept_rows = network.moved_rows(kept.entry, kept.old_start, kept.count, kept.start - kept.old_start)
        self._cached: CachedPrefix[KvCache] | None = cache.acquire(ids if ahead else ids[:-1], ahead=ahead)
        self._cached.entry.reserve(len(ids))
        self.reused_tokens = self._cached.length
        unread = len(self._ids) - 1 - (self._kept.start + self._kept.count if self._kept else self.reused_tokens)
        self._prefill_end = len(ids) if ahead else len(ids) - 1 - min(unread, (unread - 1) % CHUNK_TOKENS + 1)
        self.reused_tokens += self._kept.count if self._kept else 0
        self._is_continued = False

    def prefill(self) -> Iterator[int]:
        """See `PrefixHandle`. Leaves the last chunk, and the last token, to the first `decode` or `verify`."""
        return self._read(self._prefill_end)

    def _read(self, end: int) -> Iterator[int]:
        cache = self._open
        while (done := len(cache.ids)) < end:
            kept, rows = self._kept, self._kept_rows
            if kept and done == kept.start:
                cache.append_moved_rows(self._ids[done : done + kept.count], rows, kept.drift_lines)
                self._kept = self._kept_rows = None
                continue
            chunk = self._ids[done : min(kept.start if kept else end, done + CHUNK_TOKENS)]
            _pass(self._network, torch.tensor([chunk], device=self._network.device), cache, 0, self._on_pass)
            yield end - len(cache.ids) - (kept.count if kept else 0)

    def _read_all(self) -> int:
        """Prefills all but the last token and returns how many tokens that was."""
        end = len(self._ids) - 1
        deque(self._read(end), maxlen=0)
        return max(0, end)

    @torch.inference_mode()
    def log_probabilities(self, continuations: Sequence[Sequence[int]]) -> list[Tensor]:
        """See `PrefixHandle`. Makes one pass per continuation."""
        return [self._score(ids) for ids in continuations]

    def _score(self, ids: Sequence[int]) -> Tensor:
        prefix_tokens = self._read_all()
        fed = torch.tensor([[*self._ids[prefix_tokens:], *ids]], device=self._network.device)
        if fed.shape[1] < 2:
            return torch.empty(0, device=self._network.device)
        cache = self._open.copied(prefix_tokens, prefix_tokens + fed.shape[1])
        hidden = self._network.forward(fed[:, :-1], cache, fed.shape[1] - 1)[0]
        logprobs = []
        for first in range(0, len(hidden), _SCORED_TOKENS):
            row_logprobs = self._network.logits(hidden[first : first + _SCORED_TOKENS]).log_softmax(-1)
            logprobs.append(row_logprobs.gather(1, fed[0, first + 1 : first + 1 + len(row_logprobs), None])[:, 0])
        return torch.cat(logprobs)

    def continuation(self, room_tokens: int) -> "PromptContinuation":
        """See `FimPrefixHandle`. The output of the first one stays in the cache; a second one works on a copy."""
        cache, length = self._open, len(self._ids) + room_tokens
        if self._is_continued:
            cache = cache.copied(self._read_all(), length)
        self._is_continued = True
        cache.reserve(length)
        return PromptContinuation(self._network, cache, self._ids[len(cache.ids) :], self._on_pass)

    def close(self) -> None:
        if self._cached is not None:
            self._cache.release(self._cached)
        self._cached = self._kept = self._kept_rows = None

    @property
    def _open(self) -> KvCache:
        assert self._cached is not None, "the context is closed"
        return self._cached.entry


class PromptContinuation:
    """A continuation of a prompt that grows token by token, in the prompt's cache entry."""

    def __init__(self, network: CausalNetwork, prompt: KvCache, last: list[int], on_pass: OnPass) -> None:
        self._network = network
        self._prompt = prompt
        self._on_pass = on_pass
        self._pending = torch.tensor([last], dtype=torch.long, device=network.device)

    @torch.inference_mode()
    def decode(self, ids: Tensor) -> Tensor:
        """Appends (1, n) tokens, n may be 0 at first; the float32 logits (1, V) of the token that follows."""
        return self._append(ids, 1)[:, -1]

    @torch.inference_mode()
    def verify(self, ids: Tensor) -> Tensor:
        """Appends (1, n) tokens in one causal pass; the float32 logits (1, n, V) after each of them.

        The first call has one row more, (1, n + 1, V), at the front: the logits after the prompt itself. In float32 a
        row has the same logits, but for the last bits, in a pass of its own and with other rows. With int8 weights its
        products are the same bit for bit: with `Int8DynamicLinear` beside any number of rows, else beside up to 16.
        Attention still rounds differently; if that is coarse, as in bfloat16, two nearly equally likely tokens may
        change places.
        """
        return self._append(ids, ids.shape[1] + (self._pending.shape[1] > 0))

    def rollback(self, count: int) -> None:
        """Removes the last `count` tokens, as if they had never been decoded."""
        del self._prompt.ids[len(self._prompt.ids) - count :]

    def _append(self, ids: Tensor, num_last: int) -> Tensor:
        fed = torch.cat([self._pending, ids.to(self._pending.device)], 1)
        self._pending = self._pending[:, :0]
        self._prompt.reserve(len(self._prompt.ids) + fed.shape[1])
        return _pass(self._network, fed, self._prompt, num_last, self._on_pass)


def _pass(network: CausalNetwork, ids: Tensor, cache: KvCache, num_last: int, on_pass: OnPass) -> Tensor:
    """Appends tokens (1, n); returns the logits (1, num_last, V) after the last of them."""
    start_s = time.perf_counter()
    hidden = network.forward(ids, cache, num_last)
    logits = network.logits(hidden) if num_last else hidden
    on_pass(ids.shape[1], num_last, time.perf_counter() - start_s)
    return logits
