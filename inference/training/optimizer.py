"""Muon for the matrices, AdamW for embeddings, norms and scalars. At this size Muon learns far faster than AdamW alone.

Both forget within some twenty steps, so a run resumes from its weights alone.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
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
        """Applies the gradients and clears them. False if they were not finite: then nothing changes."""
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


class Average:
    """Exponential average with a memory of `steps`; a younger run averages over all it has."""

    def __init__(self, parameters: Mapping[str, Parameter], steps: int) -> None:
        self._parameters, self._steps, self._count = parameters, steps, 0
        self.weights = {name: one.detach().clone() for name, one in parameters.items()}

    def restore(self, weights: Mapping[str, Tensor], count: int) -> None:
        """Continues from saved averages after `count` steps."""
        for name, saved in weights.items():
            self.weights[name].copy_(saved)
        self._count = count

    @torch.no_grad()
    def update(self) -> None:
        """Adds the current parameters."""
        self._count += 1
        share = max(1 / self._steps, 2 / (self._count + 1))
        current = [one.detach() for one in self._parameters.values()]
        torch._foreach_lerp_(list(self.weights.values()), current, share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has the averaged weights inside the block, and its own again afterwards."""
        own = {name: one.detach().clone() for name, one in self._parameters.items()}
        self._set(self.weights)
        try:
            yield
        finally:
            self._set(own)

    @torch.no_grad()
    def _set(self, weights: Mapping[str, Tensor]) -> None:
        for name, one in self._parameters.items():
            one.copy_(weights[name])
