"""Noise: which hole rows are hidden, and how, and which rows carry loss.

Slack counts like every hole row, because the engine reads lengths off P(slack). Noise levels are uniform, as in
DiffusionGemma's recipe. Most canvases hide tokens behind the mask token, with some wrong tokens among the visible ones,
so that the model learns to correct itself; some use only random tokens.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from torch.utils.data import DataLoader, Dataset

from inference.training.batches import Batch, Batches, Bools, Ints
from inference.training.tokenizer import Tokens

Floats = npt.NDArray[np.float32]
_Number = TypeVar("_Number", np.int64, np.float32)

UNIFORM_SHARE = 0.08
"""The share of canvases with random tokens as noise, if the checkpoint has a mask token; without one, all of them."""

_LEAST_NOISE = 0.15
"""Below this there is hardly anything to learn from a canvas."""

WRONG_TOKENS = 0.04
"""The share of hole rows of a mask canvas with a random token, so that visible tokens are not always right."""

IN_ORDER_SHARE = 0.25
"""The share of canvases in which every hole shows its first tokens: small models mostly denoise in this order."""

ALL_NOISE_SHARE = {True: 0.7, False: 0.1}
"""The shares of canvases with and without slack that are all noise, as when the engine settles lengths and starts."""


@dataclass(frozen=True)
class Corrupted:
    """The decoder's input, and the rows that carry loss."""

    noisy: Ints  # (B, K, C)
    rows: Ints  # (B, R): row numbers in the K * C rows of a stream's canvases
    targets: Ints  # (B, R)
    weights: Floats  # (B, R); 0 where a stream has fewer than R hole rows
    hidden: Bools  # (B, R): rows of text, not slack, that do not show their token


def corrupt(batch: Batch, tokens: Tokens, rows: int, rng: np.random.Generator) -> Corrupted:
    """Noises the holes of a batch; pinned rows do not change. `rows` is R."""
    noisy = _noised(batch, tokens, rng)
    chosen, real = _loss_rows(batch.hole.reshape(len(noisy), -1), rows, rng)
    targets = _rows_of(batch.canvas, chosen)
    hidden = real & (targets != tokens.slack) & (_rows_of(noisy, chosen) != targets)
    return Corrupted(noisy, chosen, targets, real.astype(np.float32), hidden)


def _rows_of(table: npt.NDArray[_Number], chosen: Ints) -> npt.NDArray[_Number]:
    """(B, K, C) -> the (B, R) chosen rows."""
    return np.take_along_axis(table.reshape(len(table), -1), chosen, axis=1)


def _noised(batch: Batch, tokens: Tokens, rng: np.random.Generator) -> Ints:
    shape, canvases = batch.canvas.shape, batch.has_slack.shape
    level = rng.uniform(_LEAST_NOISE, 1.0, canvases)
    all_noise = rng.random(canvases) < np.where(batch.has_slack, ALL_NOISE_SHARE[True], ALL_NOISE_SHARE[False])
    level[all_noise] = 1.0
    in_order = (rng.random(canvases) < IN_ORDER_SHARE) & ~all_noise
    hidden = np.where(in_order[..., None], later_rows(batch.hole, rng), rng.random(shape) < level[..., None])
    uniform = (rng.random(canvases) < UNIFORM_SHARE)[..., None]
    random = rng.integers(0, tokens.vocabulary_size, shape)
    wrong = (rng.random(shape) < WRONG_TOKENS) & ~all_noise[..., None]
    noise = random if tokens.mask is None else np.where(uniform | wrong, random, tokens.mask)
    return np.where(batch.hole & (hidden | wrong), noise, batch.canvas)


def later_rows(hole: Bools, rng: np.random.Generator) -> Bools:
    """(B, K, C): the rows of each hole from a random one of its rows on."""
    shape = hole.shape[:-1]
    later, run, begin = np.zeros_like(hole), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    lengths = np.zeros((*shape, hole.shape[-1] + 1), np.int64)  # of the hole from each row on
    for column in reversed(range(hole.shape[-1])):
        lengths[..., column] = np.where(hole[..., column], lengths[..., column + 1] + 1, 0)
    for column in range(hole.shape[-1]):
        begins = hole[..., column] & (run == 0)
        begin = np.where(begins, rng.integers(0, np.maximum(1, lengths[..., column])), begin)
        later[..., column] = hole[..., column] & (run >= begin)
        run = np.where(hole[..., column], run + 1, 0)
    return later


def _loss_rows(hole: Bools, rows: int, rng: np.random.Generator) -> tuple[Ints, Bools]:
    """R hole rows of each stream, and which of them are real: if too few, one is repeated."""
    chosen = np.empty((len(hole), rows), np.int64)
    real = np.zeros((len(hole), rows), bool)
    for number, row in enumerate(hole):
        found = np.flatnonzero(row)
        if len(found) > rows:
            found = np.sort(rng.choice(found, rows, replace=False))
        chosen[number], real[number, : len(found)] = found[0], True
        chosen[number, : len(found)] = found
    return chosen, real


_LAST_STEP = 1 << 40
_AHEAD = 4


class Feed(Dataset[tuple[Batch, Corrupted]]):
    """Batches with their noise: the same for a step, whenever and wherever they are drawn. `rows` carry loss."""

    def __init__(self, batches: Batches, tokens: Tokens, rows: int, seed: int) -> None:
        self._batches, self._tokens, self._rows, self._seed = batches, tokens, rows, seed

    def __getitem__(self, step: int) -> tuple[Batch, Corrupted]:
        batch = self._batches.draw(step)
        return batch, corrupt(batch, self._tokens, self._rows, np.random.default_rng((self._seed, step, 1)))

    def since(self, step: int, workers: int) -> Iterator[tuple[Batch, Corrupted]]:
        """The steps from one on, without end. `workers` processes draw them ahead; 0 draws them in this process."""
        if workers == 0:
            return (self[number] for number in count(step))
        steps = range(step, _LAST_STEP)
        return iter(DataLoader(self, None, sampler=steps, num_workers=workers, prefetch_factor=_AHEAD))
