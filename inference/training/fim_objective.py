"""The loss of a causal model on fill-in-the-middle: cross-entropy of every next token, the middle's counting most.

Shapes: B examples of L rows; V vocabulary size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from inference.training import masked_trunk
from inference.training.fim_examples import FimExamples
from inference.training.fim_tokenizer import END
from inference.training.losses import Losses


@dataclass(frozen=True)
class FimInputs:
    """Examples on their device."""

    ids: Tensor  # (B, L)
    text: Tensor  # (B, L - 1): 1 where a row is followed by one that is to be predicted
    middle: Tensor  # (B, L - 1): 1 where that one is of a middle

    @property
    def row_count(self) -> int:
        """Rows that go through the network."""
        return self.ids.numel()


class FimObjective:
    """The losses of one Qwen2. `causal_weight` is that of a token outside of middles, where one of a middle has 1."""

    def __init__(self, model: Any, causal_weight: float, *, autocast: bool, compiled: bool) -> None:
        self._model, self._causal_weight, self._autocast = model, causal_weight, autocast
        self._device: torch.device = model.lm_head.weight.device
        wrap: Callable[[Any], Any] = torch.compile if compiled else lambda function: function
        self._row_losses = wrap(self._row_losses_of)

    def inputs(self, drawn: FimExamples) -> FimInputs:
        """Examples as tensors."""
        text = torch.as_tensor(drawn.text, device=self._device)[:, 1:]
        middle = torch.as_tensor(drawn.middle, device=self._device)[:, 1:] & text
        return FimInputs(torch.as_tensor(drawn.ids, device=self._device), text.float(), middle.float())

    def loss(self, inputs: FimInputs, *, conditioned: bool) -> tuple[Tensor, Losses]:
        """What is minimised, and its parts. Nothing of one step is handed to the next: `conditioned` is ignored."""
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._autocast):
            losses = self._row_losses(inputs.ids)
        outside = inputs.text - inputs.middle
        weights = inputs.middle + self._causal_weight * outside
        written = inputs.middle * (inputs.ids[:, 1:] != END)
        told = losses.detach()
        return (losses * weights).sum() / weights.sum(), Losses(
            _mean(told, inputs.middle), _mean(told, written), _mean(told, outside)
        )

    def _row_losses_of(self, ids: Tensor) -> Tensor:
        rows = ids.shape[1]
        row = torch.arange(rows, device=ids.device)
        mask = (row <= row[:, None])[None, None]  # padding stands behind all else
        hidden = masked_trunk.run(self._model, ids, mask, masked_trunk.rotary(self._model, rows))
        logits = self._model.lm_head(hidden[:, :-1]).float()
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(len(ids), -1)


def _mean(values: Tensor, weights: Tensor) -> float:
    return float((values * weights).sum() / weights.sum())
