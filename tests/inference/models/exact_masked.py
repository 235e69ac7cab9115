"""A masked-diffusion model that computes every row at each step: what the kept rows are compared with."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from inference.models import registry
from inference.models.family import Context
from inference.models.masked.adapter import MaskedDiffusion


def load_exact(folder: Path) -> "ExactMasked":
    found = registry.find(str(folder))
    loaded = ExactMasked.load(found, "cpu", "float32", lambda *_: None)
    assert isinstance(loaded, ExactMasked)
    return loaded


class ExactMasked(MaskedDiffusion):
    def open(self, prefix_ids: Sequence[int]) -> Context:
        return ExactContext(self, prefix_ids)


def itself(_layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """All that a pass attends to are its own rows."""
    return keys.transpose(1, 2), values.transpose(1, 2)


class ExactContext(Context):
    reused_tokens = 0

    def __init__(self, family: MaskedDiffusion, prefix_ids: Sequence[int]) -> None:
        self.network, self.shifted = family.network, family.properties.shifted_logits
        self.prefix = torch.tensor(list(prefix_ids), dtype=torch.long)

    @torch.inference_mode()
    def predict(
        self, ids: Tensor, rows: Tensor, *, valid: Tensor | None = None, feedback: Tensor | None = None
    ) -> Tensor:
        batch, width = ids.shape
        before = len(self.prefix)
        whole, visible = torch.cat([self.prefix.expand(batch, -1), ids], 1), None
        if valid is not None:
            visible = torch.cat([valid.new_ones(batch, before), valid], 1)[:, None, None]
        hidden = self.network.hidden(whole, torch.arange(before + width), itself, visible, before + width)
        sources = before + rows % width
        if self.shifted:  # the row before predicts each; the first always predicts itself
            sources = (sources - 1).clamp(min=0)
        return self.network.logits(hidden.flatten(0, 1)[rows // width * (before + width) + sources])

    def close(self) -> None: ...
