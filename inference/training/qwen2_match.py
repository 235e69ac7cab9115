"""Trains a Qwen2 to have the states of a small DiffusionGemma in all rows and layers, and its tokens in masked rows.

States say more of each row than its token does: some hundred steps teach what would take thousands of plain training.
Shapes as in qwen2_teacher.py; R masked rows of all texts are predicted; S layers are matched.
"""

import time
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from inference.training import masked_trunk
from inference.training.config import TrainingConfig
from inference.training.qwen2_teacher import ROWS, MaskedTexts, States, TextSource
from inference.training.tokenizer import MASK

_TEXTS = 8
_PREDICTED = 160
_RATE = 3e-4
_WARMUP_STEPS = 20
_MASKED_WEIGHT = 4.0
"""Of the state of a masked row, against that of a row that shows its token."""

_TOKEN_WEIGHT = 0.15
"""Of the cross-entropy of the tokens, against the sum of the layers' relative errors."""

_CLIP_NORM = 1.0
_TOLD_STEPS = 25


def match(model: Any, source: Any, texts: TextSource, scale: float, training: TrainingConfig) -> None:
    """Trains all but the last layer, in place. States of `source` times `scale` are what the model's should be."""
    layers = list(model.model.layers)[:-1]
    fixed = {id(one) for one in model.model.layers[-1].parameters()}
    parameters = [one for one in model.parameters() if id(one) not in fixed]
    optimizer = torch.optim.AdamW(parameters, lr=_RATE, betas=(0.9, 0.95), weight_decay=0.0)
    losses: Any = _Matching(model, layers)
    losses = torch.compile(losses, dynamic=False) if training.compile else losses
    began = time.monotonic()
    steps = training.matching_steps
    for step in range(steps):
        drawn = texts.draw(step, _TEXTS)
        states = torch.stack(States.of(source, drawn).finished) * scale
        errors, tokens = losses(drawn.noisy, states, *_predicted(drawn))
        (errors.sum() + _TOKEN_WEIGHT * tokens).backward()
        torch.nn.utils.clip_grad_norm_(parameters, _CLIP_NORM)
        for group in optimizer.param_groups:
            group["lr"] = _RATE * min(1.0, (step + 1) / _WARMUP_STEPS) * (1 - step / steps)
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % _TOLD_STEPS == 0:
            told = f"error of the last layer {float(errors[-1]):.3f}  token {float(tokens):.3f}"
            print(f"kind match  step {step + 1}  seconds {time.monotonic() - began:.0f}  {told}", flush=True)


def _predicted(texts: MaskedTexts) -> tuple[Tensor, Tensor, Tensor]:
    """(R,) numbers of texts, (R,) rows and (R,) tokens: masked rows, spread evenly."""
    found = (texts.noisy == MASK).nonzero()
    text, row = found[torch.linspace(0, len(found) - 1, _PREDICTED).long()].T
    return text, row, texts.clean[text, row]


class _Matching(torch.nn.Module):
    def __init__(self, model: Any, layers: list[Any]) -> None:
        super().__init__()
        self._model, self._layers = model, layers
        self._rope = masked_trunk.rotary(model, ROWS)
        self._mask = masked_trunk.visible(torch.full((_TEXTS,), ROWS), torch.zeros(_TEXTS, dtype=torch.bool), ROWS)

    def forward(
        self, noisy: Tensor, states: Tensor, text: Tensor, row: Tensor, tokens: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(B, L) ids and (S, B, L, d) states -> (S,) relative errors, and the mean loss of R tokens in their rows."""
        weights = torch.where(noisy == MASK, _MASKED_WEIGHT, 1.0)
        hidden, errors = self._model.model.embed_tokens(noisy), []
        for layer, wanted in zip(self._layers, states, strict=True):
            hidden = masked_trunk.through(layer, hidden, self._rope, self._mask)
            missed = ((hidden - wanted).pow(2).mean(-1) * weights).sum()
            errors.append(missed / (wanted.pow(2).mean(-1) * weights).sum())
        logits = self._model.lm_head(self._model.model.norm(hidden[text, row]))
        return torch.stack(errors), F.cross_entropy(logits, tokens)
