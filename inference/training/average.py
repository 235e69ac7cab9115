"""A running average of the weights: what snapshots ship while the learning rate is still high."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import Parameter


class Average:
    """Exponential average with a memory of `steps`; younger runs average over what they have."""

    def __init__(self, parameters: Mapping[str, Parameter], steps: int) -> None:
        self._parameters, self._steps, self._count = parameters, steps, 0
        self.weights = {name: one.detach().clone() for name, one in parameters.items()}

    def restore(self, weights: Mapping[str, Tensor], count: int) -> None:
        """Goes on from saved averages after `count` steps."""
        for name, saved in weights.items():
            self.weights[name].copy_(saved)
        self._count = count

    @torch.no_grad()
    def update(self) -> None:
        """Takes in the parameters as they are now."""
        self._count += 1
        share = max(1 / self._steps, 2 / (self._count + 1))
        current = [one.detach() for one in self._parameters.values()]
        torch._foreach_lerp_(list(self.weights.values()), current, share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has the averaged weights inside the block, and its own again after it."""
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
