"""Muon for the matrices, AdamW for embeddings, norms and scalars. At this size Muon learns far faster than AdamW alone.

Both forget within some twenty steps, so a run resumes from its weights alone.
"""

from collections.abc import Mapping

import torch
from torch.nn import Parameter

_CLIP_NORM = 1.0
_NO_MATRIX = ("embed", "lm_head", "router", "lora_")


class Optimizer:
    """One step over all parameters, at a share of the configured learning rates."""

    def __init__(self, parameters: Mapping[str, Parameter], matrix_lr: float, other_lr: float) -> None:
        self._all = list(parameters.values())
        matrices = [one for name, one in parameters.items() if _is_matrix(name, one)]
        others = [one for name, one in parameters.items() if not _is_matrix(name, one)]
        self._parts: list[tuple[torch.optim.Optimizer, float]] = []
        if matrices:
            muon = torch.optim.Muon(matrices, lr=matrix_lr, momentum=0.95, weight_decay=0.01, adjust_lr_fn="original")
            self._parts.append((muon, matrix_lr))
        if others:
            adam = torch.optim.AdamW(others, lr=other_lr, betas=(0.9, 0.95), weight_decay=0.0)
            self._parts.append((adam, other_lr))

    def step(self, scale: float) -> bool:
        """Applies the gradients and clears them. False where they were not finite: then nothing is changed."""
        norm = torch.nn.utils.clip_grad_norm_(self._all, _CLIP_NORM)
        finite = bool(torch.isfinite(norm))
        for part, rate in self._parts:
            for group in part.param_groups:
                group["lr"] = rate * scale
            if finite:
                part.step()
            part.zero_grad()
        return finite


def _is_matrix(name: str, parameter: Parameter) -> bool:
    return parameter.ndim == 2 and not any(part in name for part in _NO_MATRIX)
