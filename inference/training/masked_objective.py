"""The loss of masked diffusion: weighted cross-entropy on the masked rows of examples, of shifted logits.

Row i - 1 predicts the token of row i, as in a causal model; so clean, causal examples can be trained beside the masked.
Shapes: B examples of L rows; R rows of all examples carry loss; V vocabulary size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from inference.training import masked_trunk
from inference.training.losses import Losses
from inference.training.masked_corruption import MaskedExamples


@dataclass(frozen=True)
class MaskedInputs:
    """Examples on their device."""

    noisy: Tensor  # (B, L)
    mask: Tensor  # (B, 1, L, L)
    rows: Tensor  # (R,): row numbers in the flattened (B * L), of the rows that predict
    targets: Tensor  # (R,)
    weights: Tensor  # (R,)
    causal: Tensor  # (R,)

    @property
    def row_count(self) -> int:
        """Rows that go through the network."""
        return self.noisy.numel()


class MaskedObjective:
    """The losses of one Qwen2. `loss_rows` is the share of rows that can carry loss; those beyond it are left out."""

    def __init__(self, model: Any, loss_rows: float, *, autocast: bool, compiled: bool) -> None:
        self._model, self._loss_rows, self._autocast = model, loss_rows, autocast
        self._device: torch.device = model.lm_head.weight.device
        wrap: Callable[[Any], Any] = torch.compile if compiled else lambda function: function
        self._row_losses = wrap(self._row_losses_of)

    def inputs(self, drawn: MaskedExamples) -> MaskedInputs:
        """Examples as tensors."""
        to = self._tensor
        weights = to(drawn.weights)[:, 1:].flatten()
        chosen = _chosen(weights, int(self._loss_rows * drawn.clean.size))
        rows = chosen + chosen // (drawn.clean.shape[1] - 1)  # of (B, L - 1) -> of (B, L)
        return MaskedInputs(
            noisy=to(drawn.noisy),
            mask=masked_trunk.visible(to(drawn.lengths), to(drawn.causal), drawn.clean.shape[1]),
            rows=rows,
            targets=to(drawn.clean).flatten()[rows + 1],
            weights=weights[chosen],
            causal=to(drawn.causal)[rows // drawn.clean.shape[1]],
        )

    def _tensor(self, table: npt.NDArray[Any]) -> Tensor:
        return torch.as_tensor(table, device=self._device)

    def loss(self, inputs: MaskedInputs, *, conditioned: bool) -> tuple[Tensor, Losses]:
        """What is minimised, and its parts. Nothing of one step is handed to the next: `conditioned` is ignored."""
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._autocast):
            losses = self._row_losses(inputs.noisy, inputs.mask, inputs.rows, inputs.targets)
        total = (losses * inputs.weights).sum() / inputs.weights.sum()
        rows, causal = losses.detach(), inputs.causal.float()
        masked = (1 - causal) * (inputs.weights > 0)
        return total, Losses(
            _mean(rows, inputs.weights * masked), _mean(rows, masked), _mean(rows, inputs.weights * causal)
        )

    def _row_losses_of(self, noisy: Tensor, mask: Tensor, rows: Tensor, targets: Tensor) -> Tensor:
        rope = masked_trunk.rotary(self._model, noisy.shape[1])
        hidden = masked_trunk.run(self._model, noisy, mask, rope).flatten(0, 1)
        return F.cross_entropy(self._model.lm_head(hidden[rows]).float(), targets, reduction="none")


def _chosen(weights: Tensor, count: int) -> Tensor:
    """`count` places: those with weight, spread evenly where there are more of them, filled up with others."""
    order = torch.argsort((weights > 0).int(), descending=True, stable=True)
    real = int((weights > 0).sum())
    if real <= count:
        return order[:count]
    return order[torch.linspace(0, real - 1, count, device=weights.device).long()]


def _mean(values: Tensor, weights: Tensor) -> float:
    return float((values * weights).sum() / weights.sum())
