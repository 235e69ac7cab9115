"""DiffusionGemma as a `ModelAdapter`: encodes and caches each prefix once, and decodes canvases against it."""

from collections.abc import Sequence

import torch
from tokenizers import Tokenizer
from torch import Tensor

from inference.models.checkpoint import Checkpoint
from inference.models.diffusion_gemma.encoded_prefix import EncodedPrefix, new_prefix_cache
from inference.models.diffusion_gemma.interface import DiffusionNetwork
from inference.models.family import ModelTraits
from inference.models.infill_config import InfillConfig
from inference.models.prefix_cache import IdlePrefillAdapter

_CACHE_SHARE = 0.25
_CACHE_LIMIT_BYTES, _CACHE_LIMIT_CPU_BYTES = 4 << 30, 512 << 20
"""Encoded prefixes take up to a quarter of the free memory, and up to this: a CPU's memory also holds editors."""
_CACHED_PREFIXES = 16
"""And at most this many whole prefixes: in a session over twelve files two of them reuse 91.7 % of all prefix tokens,
16 of them 93.6 %, and 32 as much as 256, 93.9 % (measured once).
"""

_FREE_ROWS = 512
"""On a GPU a step of up to this many rows takes as long as reading the weights: 64 rows need nearly all experts."""


def cache_budget(network: DiffusionNetwork, infill_config: InfillConfig, free_bytes: int, *, on_cpu: bool) -> int:
    """The bytes that unread encoded prefixes may take of the memory that is free beside the loaded model."""
    limit = _CACHE_LIMIT_CPU_BYTES if on_cpu else _CACHE_LIMIT_BYTES
    rows = (layer.keys for layer in network.empty_layers())
    token_bytes = sum(int(2 * keys.shape[1] * keys.shape[3] * keys.itemsize) for keys in rows)
    return min(int(free_bytes * _CACHE_SHARE), limit, _CACHED_PREFIXES * token_bytes * infill_config.max_prefix_tokens)


class DiffusionGemmaAdapter(IdlePrefillAdapter):
    """A loaded DiffusionGemma. Only its prefix cache changes."""

    ahead_chunk_tokens = 128

    def __init__(
        self,
        checkpoint: Checkpoint,
        tokenizer: Tokenizer,
        network: DiffusionNetwork,
        dtype: str,
        cache_bytes: int,
        runs_on: str = "",
    ) -> None:
        """`cache_bytes`: the limit for unread encoded prefixes. `dtype`: its name."""
        self.name = checkpoint.name
        self.infill_config = checkpoint.infill_config
        self.tokenizer = tokenizer
        self.network = network
        self.device = network.device
        self.dtype = dtype
        self.note = network.note
        self.prefixes = new_prefix_cache(network, cache_bytes)
        self.traits = ModelTraits(
            noise=self.infill_config.corruption,
            vocabulary_size=network.vocabulary_size,
            can_score=True,
            runs_on=runs_on,
            free_rows=_FREE_ROWS if self.device.type == "cuda" else 0,
        )

    def open_prefix(self, prefix_ids: Sequence[int], *, ahead: bool = False) -> "EncodedPrefixHandle":
        return EncodedPrefixHandle(self.network, self.prefixes, prefix_ids, ahead=ahead)


class EncodedPrefixHandle(EncodedPrefix):
    """A `PrefixHandle`: a prefix in the cache, and the passes of the network that read it."""

    @torch.inference_mode()
    def predict(
        self, ids: Tensor, rows: Tensor, *, valid: Tensor | None = None, feedback: Tensor | None = None
    ) -> Tensor:
        """See `PrefixHandle`. The feedback of a row that was not requested is its token's embedding."""
        signal = None
        if feedback is not None:
            embedded = self._network.certain_embeddings(ids)
            signal = embedded.flatten(0, 1).index_put((rows,), feedback).view_as(embedded)
        hidden = self._network.decode(ids, signal, self.view(), valid)
        return self._network.logits(hidden.flatten(0, 1)[rows])

    @torch.inference_mode()
    def self_conditioning(self, logits: Tensor, probabilities: Tensor) -> Tensor:
        """The self-conditioning signal: the expected embedding (N, d) of each row."""
        return self._network.expected_embeddings(logits, probabilities)

    @torch.inference_mode()
    def log_probabilities(self, continuations: Sequence[Sequence[int]]) -> list[Tensor]:
        """See `PrefixHandle`. One causal pass over all of them, which begins with the prefix's last token."""
        last = list(self._ids[-1:])
        fed = [[*last, *ids] for ids in continuations]
        max_tokens = max(len(ids) for ids in fed)
        batch = torch.tensor([[*ids, *([0] * (max_tokens - len(ids)))] for ids in fed], device=self._network.device)
        hidden = self._network.encode(batch, self.view(max(0, self.length - 1)))
        logprobs = []
        for index, ids in enumerate(fed):
            next_ids = torch.tensor(ids[1:], device=hidden.device, dtype=torch.long)[:, None]
            row_logprobs = self._network.logits(hidden[index, : len(ids) - 1]).log_softmax(-1)
            logprobs.append(row_logprobs.gather(-1, next_ids)[:, 0])
        return logprobs
