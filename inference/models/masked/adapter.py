"""Masked diffusion behind the `Family` protocol: prefix and canvas are one sequence, and each row sees all of it."""

from collections.abc import Sequence

from tokenizers import Tokenizer

from inference.models import devices
from inference.models.checkpoint import Checkpoint
from inference.models.family import Context, Family, OnProgress, Traits
from inference.models.fim import formats, weights
from inference.models.fim.network import Network
from inference.models.masked import token_files
from inference.models.masked.cached_context import CachedContext, Memory
from inference.models.properties import ENTROPY_BOUND, NoiseKind, Properties


class MaskedDiffusion(Family):
    def __init__(self, name: str, network: Network, properties: Properties, tokenizer: Tokenizer, dtype: str) -> None:
        """`dtype`: a precision's name."""
        self.name = name
        self.network = network
        self.properties = properties
        self.tokenizer = tokenizer
        self.device = network.device
        self.dtype = dtype
        self._memory = Memory()
        tokens = (properties.expand_token_id, properties.delete_token_id)
        self.traits = Traits(
            noise=NoiseKind.MASK,
            resizes=None not in tokens and properties.sampler.method != ENTROPY_BOUND,
            vocabulary_size=network.config.vocab_size,
            can_score=False,  # a row sees the rows behind it, so no product of its predictions is a likelihood
        )

    @classmethod
    def load(cls, found: Checkpoint, device: str | None, dtype: str | None, progress: OnProgress) -> "MaskedDiffusion":
        tokenizer = token_files.tokenizer(found)
        place = devices.choose_device(device)
        network, precision = weights.read(found, place, formats.for_many_rows(place, dtype), progress)
        return cls(found.name, network, found.properties, tokenizer, precision)

    @property
    def row_s(self) -> float:
        return self._memory.row_s

    def open(self, prefix_ids: Sequence[int]) -> Context:
        return CachedContext(self.network, self.properties, prefix_ids, self._memory)
