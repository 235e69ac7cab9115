"""The smallest possible family: bidirectional, by counts of neighbouring tokens."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from inference.models.family import ModelAdapter, ModelTraits
from inference.models.infill_config import HoleNoise, InfillConfig, SamplerSettings
from tests.inference.models.random_model import SPECIAL_TOKENS, byte_tokenizer

MASK_ID = len(SPECIAL_TOKENS) + 256
_SMOOTHING = 0.01


class BigramFamily(ModelAdapter):
    name, dtype, device = "bigrams", "float32", torch.device("cpu")

    def __init__(self, text: str) -> None:
        self.tokenizer = byte_tokenizer()
        self.traits = ModelTraits(HoleNoise.MASK, MASK_ID + 1, can_score=False)
        sampler = SamplerSettings(max_steps=16, accept_floor=True)
        self.infill_config = InfillConfig(HoleNoise.MASK, MASK_ID, canvas_tokens=64, sampler=sampler)
        ids = torch.tensor(self.tokenizer.encode(text, add_special_tokens=False).ids)
        counts = torch.full((MASK_ID + 1, MASK_ID + 1), _SMOOTHING)
        counts.index_put_((ids[:-1], ids[1:]), torch.tensor(1.0), accumulate=True)
        self.follows = (counts / counts.sum(1, keepdim=True)).log()
        """(V, V): the log-probability of each token after each."""
        self.opened = 0

    def open_prefix(self, prefix_ids: Sequence[int]) -> "BigramContext":
        self.opened += 1
        return BigramContext(self, prefix_ids)


class BigramContext:
    reused_tokens = 0

    def __init__(self, family: BigramFamily, prefix_ids: Sequence[int]) -> None:
        self._family, self._last, self._closed = family, ([MASK_ID, *prefix_ids])[-1], False

    def prefill(self) -> Iterator[int]:
        return iter(())

    def predict(
        self, ids: Tensor, rows: Tensor, *, valid: Tensor | None = None, feedback: Tensor | None = None
    ) -> Tensor:
        assert feedback is None
        assert not self._closed
        known = ids if valid is None else ids.masked_fill(~valid, MASK_ID)
        before = torch.cat([torch.full_like(known[:, :1], self._last), known[:, :-1]], 1).flatten()[rows]
        after = torch.cat([known[:, 1:], torch.full_like(known[:, :1], MASK_ID)], 1).flatten()[rows]
        follows, nothing = self._family.follows, torch.tensor(0.0)
        left = torch.where((before == MASK_ID)[:, None], nothing, follows[before])
        right = torch.where((after == MASK_ID)[:, None], nothing, follows[:, after].T)
        return left + right

    def self_conditioning(self, logits: Tensor, probabilities: Tensor) -> None:
        return None

    def log_probabilities(self, continuations: Sequence[Sequence[int]]) -> list[Tensor]:
        raise AssertionError("this family cannot score")

    def close(self) -> None:
        self._family.opened -= not self._closed
        self._closed = True
