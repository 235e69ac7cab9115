"""Masked diffusion behind the `Family` protocol: prefix and canvas are one sequence, and each row sees all of it."""

from collections.abc import Iterator, Sequence

import torch
from tokenizers import Tokenizer
from torch import Tensor

from inference.models import devices
from inference.models.checkpoint import Checkpoint
from inference.models.family import Context, Family, LengthSignal, OnProgress, Traits
from inference.models.masked import token_files, weights
from inference.models.masked.cached_context import CachedContext, CanvasesAlone, Memory
from inference.models.masked.network import Qwen2
from inference.models.properties import ENTROPY_BOUND, NoiseKind, Properties


class MaskedDiffusion(Family):
    """A loaded masked-diffusion model."""

    def __init__(self, name: str, network: Qwen2, properties: Properties, tokenizer: Tokenizer, dtype: str) -> None:
        """`dtype`: a precision's name."""
        self.name = name
        self.network = network
        self.properties = properties
        self.tokenizer = tokenizer
        self.device = network.device
        self.dtype = dtype
        self._memory = Memory()
        tokens = (properties.expand_token_id, properties.delete_token_id)
        resizes = None not in tokens and properties.sampler.method != ENTROPY_BOUND
        self.traits = Traits(
            noise=NoiseKind.MASK,
            length_signal=LengthSignal.EXPAND_DELETE if resizes else LengthSignal.NONE,
            vocabulary_size=network.config.vocab_size,
            can_score=False,  # a row sees the rows behind it, so no product of its predictions is a likelihood
        )

    @classmethod
    def load(cls, found: Checkpoint, device: str | None, dtype: str | None, progress: OnProgress) -> "MaskedDiffusion":
        """See `FamilyModule.load`."""
        tokenizer = token_files.tokenizer(found)
        place = devices.choose_device(device)
        progress(0.1, "checking memory")
        candidates = weights.precisions(place, dtype)
        free = devices.free_bytes(place)
        precision = devices.fitting(found.name, place, free, candidates, lambda one: weights.weight_bytes(found, one))
        network = weights.read(found, place, precision, progress)
        return cls(found.name, network, found.properties, tokenizer, precision.name)

    @property
    def row_s(self) -> float:
        return self.network.row_s

    def open(self, prefix_ids: Sequence[int]) -> Context:
        if self.properties.exact:
            return ExactContext(self.network, self.properties, prefix_ids)
        return CachedContext(self.network, self.properties, prefix_ids, self._memory)


class ExactContext(CanvasesAlone):
    """A `Context`: the tokens of a prefix. Every row is recomputed at each step, since it sees all others."""

    reused_tokens = 0

    def __init__(self, network: Qwen2, properties: Properties, prefix_ids: Sequence[int]) -> None:
        self._network = network
        self._shifted = properties.shifted_logits
        self._prefix = torch.tensor(list(prefix_ids), dtype=torch.long, device=network.device)

    def encode(self) -> Iterator[int]:
        return iter(())

    @torch.inference_mode()
    def predict(
        self, ids: Tensor, rows: Tensor, *, valid: Tensor | None = None, feedback: Tensor | None = None
    ) -> Tensor:
        """See `Context`. One pass over prefix and canvas of each of the B."""
        batch, width = ids.shape
        before = len(self._prefix)
        whole = torch.cat([self._prefix.expand(batch, -1), ids], 1)
        visible = None
        if valid is not None:
            visible = torch.cat([valid.new_ones(batch, before), valid], 1)[:, None, None]
        hidden = self._network(whole, torch.arange(before + width, device=ids.device), visible=visible)
        sources = before + rows % width
        if self._shifted:  # the row before predicts each; the first always predicts itself
            sources = (sources - 1).clamp(min=0)
        at = rows // width * (before + width) + sources
        return self._network.logits(hidden.flatten(0, 1)[at])

    def close(self) -> None:
        """See `Context`."""
