"""The loss of a batch: flat cross-entropy over the hole rows, and next-token cross-entropy over the stream.

Only holes are corrupted and counted, text and slack equally. The causal part teaches the encoder, and makes it a judge
of candidates. Shapes as in trunk.py; R rows of a stream's canvases carry loss; V vocabulary size.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from inference.training import trunk
from inference.training.batches import Batch
from inference.training.corruption import Corrupted


@dataclass(frozen=True)
class Losses:
    """Means in nats: `hole` as trained, `text` over hidden text rows, `causal` from the left; 0 without rows."""

    hole: float
    text: float
    causal: float


def mean(losses: Sequence[Losses]) -> Losses:
    """The mean of each loss, over the steps that have it."""
    table = np.array([[one.hole, one.text, one.causal] for one in losses]).reshape(-1, 3)
    known = [column[~np.isnan(column)] for column in table.T]
    return Losses(*(float(np.mean(column)) if len(column) else float("nan") for column in known))


@dataclass(frozen=True)
class TrainingInputs:
    """A batch on its device."""

    stream: Tensor  # (B, P)
    canvas: Tensor  # (B, K * C), noisy
    rope: dict[str, trunk.Rotary]
    masks: dict[str, trunk.Masks]
    rows: Tensor  # (B, R)
    next_weights: Tensor  # (B, P - 1): 1 where the next token is text
    targets: Tensor  # (B, P - 1 + R)
    row_weights: Tensor  # (B, R)
    hidden: Tensor  # (B, R)


class InfillingObjective:
    """The losses of one model. `compiled` compiles the two passes; worth it from a few hundred steps on."""

    def __init__(self, model: Any, causal_weight: float, *, autocast: bool, compiled: bool) -> None:
        self._both, self._decoder, self._lm_head = model.model, model.model.decoder, model.lm_head
        self._softcap: float = model.final_logit_softcapping
        self._causal_weight, self._autocast = causal_weight, autocast
        self._device: torch.device = model.lm_head.weight.device
        config = model.config.text_config
        self._windows = {
            kind: config.sliding_window if kind == "sliding_attention" else None for kind in set(config.layer_types)
        }
        wrap: Callable[[Any], Any] = torch.compile if compiled else lambda function: function
        self._row_losses = wrap(self._row_losses_of)
        self._soft_rows = wrap(self._soft_rows_of)

    def inputs(self, drawn: tuple[Batch, Corrupted]) -> TrainingInputs:
        """A batch, corrupted, as tensors."""
        batch, corrupted = drawn
        to = self._tensor
        stream, splits = to(batch.stream), to(batch.splits)
        sizes = stream.shape[1], batch.canvas.shape[2]
        at = trunk.positions(splits, *sizes)
        masks = {
            kind: trunk.visible(splits, to(batch.lengths), *sizes, window) for kind, window in self._windows.items()
        }
        following = torch.arange(1, sizes[0], device=self._device)
        real = (following < to(batch.stream_lengths)[:, None]) & (following >= to(batch.text_starts)[:, None])
        return TrainingInputs(
            stream=stream,
            canvas=to(corrupted.noisy).flatten(1),
            rope=trunk.rotary(self._decoder, at),
            masks=masks,
            rows=to(corrupted.rows),
            next_weights=real.float(),
            targets=torch.cat([stream[:, 1:], to(corrupted.targets)], 1),
            row_weights=to(corrupted.weights),
            hidden=to(corrupted.hidden),
        )

    def _tensor(self, table: npt.NDArray[Any]) -> Tensor:
        return torch.as_tensor(table, device=self._device)

    def _soft(self, inputs: TrainingInputs, *, conditioned: bool) -> Tensor:
        """The self-conditioning signal (B, K * C, d) as in the engine: zero, or from the output of a first pass."""
        embedding = self._decoder.embed_tokens
        zero = torch.zeros(*inputs.canvas.shape, embedding.weight.shape[1], device=self._device)
        if not conditioned:
            return zero
        with torch.no_grad(), self._casting():
            rows = self._soft_rows(inputs, zero).float()
            index = inputs.rows[..., None].expand_as(rows)
            return embedding(inputs.canvas).float().scatter(1, index, rows)  # type: ignore[no-any-return]

    def loss(self, inputs: TrainingInputs, *, conditioned: bool) -> tuple[Tensor, Losses]:
        """The loss to minimise, and its parts. `conditioned`: with self-conditioning on a first pass."""
        soft = self._soft(inputs, conditioned=conditioned)
        with self._casting():
            losses = self._row_losses(inputs, soft)
        columns = inputs.next_weights.shape[1]
        causal = (losses[:, :columns] * inputs.next_weights).sum() / inputs.next_weights.sum()
        hole = (losses[:, columns:] * inputs.row_weights).sum() / inputs.row_weights.sum()
        return hole + self._causal_weight * causal, _means(losses.detach(), inputs)

    def _casting(self) -> AbstractContextManager[Any]:
        return torch.autocast(self._device.type, torch.bfloat16, enabled=self._autocast)

    def _rows(self, inputs: TrainingInputs, soft: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states of the stream's rows (B, P, d) and of the loss rows of its canvases (B, R, d)."""
        hidden = trunk.run(self._both, inputs.stream, inputs.canvas, soft, inputs.rope, inputs.masks)
        columns = inputs.stream.shape[1]
        index = inputs.rows[..., None].expand(-1, -1, hidden.shape[-1])
        return hidden[:, :columns], hidden[:, columns:].gather(1, index)

    def _row_losses_of(self, inputs: TrainingInputs, soft: Tensor) -> Tensor:
        stream, rows = self._rows(inputs, soft)
        logits = self._logits(torch.cat([stream[:, :-1], rows], 1))
        losses = F.cross_entropy(logits.flatten(0, 1), inputs.targets.flatten(), reduction="none")
        return losses.view(inputs.targets.shape)

    def _soft_rows_of(self, inputs: TrainingInputs, zero: Tensor) -> Tensor:
        _, rows = self._rows(inputs, zero)
        embedding = self._decoder.embed_tokens
        chances = self._logits(rows).softmax(-1).to(rows.dtype)
        return chances @ embedding.weight.to(rows.dtype) * embedding.scalar_embed_scale  # type: ignore[no-any-return]

    def _logits(self, hidden: Tensor) -> Tensor:
        """(..., d) -> (..., V) in float32."""
        raw = self._lm_head(hidden).float()
        return torch.tanh(raw / self._softcap) * self._softcap


def _means(losses: Tensor, inputs: TrainingInputs) -> Losses:
    """The log entries for row losses (B, P - 1 + R)."""
    columns = inputs.next_weights.shape[1]
    stream, rows = losses[:, :columns], losses[:, columns:]
    return Losses(
        _mean(rows, inputs.row_weights), _mean(rows, inputs.hidden.float()), _mean(stream, inputs.next_weights)
    )


def _mean(values: Tensor, weights: Tensor) -> float:
    return float((values * weights).sum() / weights.sum().clamp(min=1e-6))
