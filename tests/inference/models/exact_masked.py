"""A masked-diffusion model that keeps nothing from pass to pass: what the kept rows are compared with.

The first pass over one canvas takes nothing from earlier ones; `test_masked.py` compares it with transformers' layers.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from inference.models import registry
from inference.models.family import PrefixHandle
from inference.models.masked.adapter import MaskedDiffusionAdapter, MaskedPrefixHandle, SequenceCache


def load_exact(folder: Path) -> "ExactMasked":
    one = cast("MaskedDiffusionAdapter", registry.load_model(str(folder), device="cpu", dtype="float32"))
    return ExactMasked(one.name, one.network, one.infill_config, one.tokenizer, one.dtype)


class ExactMasked(MaskedDiffusionAdapter):
    def open_prefix(self, prefix_ids: Sequence[int]) -> PrefixHandle:
        return ExactContext(self, prefix_ids)


class ExactContext(PrefixHandle):
    reused_tokens = 0

    def __init__(self, family: MaskedDiffusionAdapter, prefix_ids: Sequence[int]) -> None:
        self.family, self.prefix_ids = family, prefix_ids

    def predict(
        self, ids: Tensor, rows: Tensor, *, valid: Tensor | None = None, feedback: Tensor | None = None
    ) -> Tensor:
        """Each canvas alone, without its padding."""
        width, found = ids.shape[1], []
        for number, canvas in enumerate(ids):
            alone = canvas if valid is None else canvas[valid[number]]
            first = MaskedPrefixHandle(self.family.network, self.family.infill_config, self.prefix_ids, SequenceCache())
            found.append(first.predict(alone[None], rows[rows // width == number] % width))
        return torch.cat(found)

    def close(self) -> None: ...
