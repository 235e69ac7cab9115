"""Batches with their noise, drawn ahead by other processes where the device would wait for them."""

from collections.abc import Iterator
from itertools import count

import numpy as np
from torch.utils.data import DataLoader, Dataset

from inference.training import corruption
from inference.training.batches import Batch, Batches
from inference.training.corruption import Corrupted
from inference.training.tokenizer import Tokens

_LAST_STEP = 1 << 40
_AHEAD = 4


class Feed(Dataset[tuple[Batch, Corrupted]]):
    """What is trained on at a step: the same whenever and wherever it is drawn. `rows` is R of corruption.py."""

    def __init__(self, batches: Batches, tokens: Tokens, rows: int, seed: int) -> None:
        self._batches, self._tokens, self._rows, self._seed = batches, tokens, rows, seed

    def __getitem__(self, step: int) -> tuple[Batch, Corrupted]:
        batch = self._batches.draw(step)
        return batch, corruption.corrupt(batch, self._tokens, self._rows, np.random.default_rng((self._seed, step, 1)))

    def since(self, step: int, workers: int) -> Iterator[tuple[Batch, Corrupted]]:
        """The steps from one on, without end; drawn in this process where `workers` is 0."""
        if workers == 0:
            return (self[number] for number in count(step))
        steps = range(step, _LAST_STEP)
        return iter(DataLoader(self, None, sampler=steps, num_workers=workers, prefetch_factor=_AHEAD))
