"""Batches with their noise, drawn ahead by other processes if the device would wait for them."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from torch.utils.data import DataLoader, Dataset

_LAST_STEP = 1 << 40
_AHEAD = 4

Drawn = TypeVar("Drawn")
Noise = Callable[[Any, np.random.Generator], Drawn]


class BatchSource(Protocol):
    """The source of batches, before noise."""

    def draw(self, step: int) -> Any:
        """The batch of a step: the same for the same step."""


class Feed(Dataset[Drawn], Generic[Drawn]):
    """The training data of a step: the same whenever and wherever it is drawn."""

    def __init__(self, batches: BatchSource, noise: Noise[Drawn], seed: int) -> None:
        self._batches, self._noise, self._seed = batches, noise, seed

    def __getitem__(self, step: int) -> Drawn:
        return self._noise(self._batches.draw(step), np.random.default_rng((self._seed, step, 1)))

    def since(self, step: int, workers: int) -> Iterator[Drawn]:
        """The steps from one on, without end; drawn in this process if `workers` is 0."""
        if workers == 0:
            return (self[number] for number in count(step))
        steps = range(step, _LAST_STEP)
        return iter(DataLoader(self, None, sampler=steps, num_workers=workers, prefetch_factor=_AHEAD))
