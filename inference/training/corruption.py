"""Noise and weights: which hole rows are hidden, by what, and how much each counts.

Noise levels are uniform, as in DiffusionGemma's recipe. Most canvases hide tokens behind the mask token, with some
wrong tokens among the visible ones, so that the model learns to correct itself; some are noised with random tokens
alone.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from inference.training.batches import Batch, Bools, Ints
from inference.training.tokenizer import FIRST_TEXT_TOKEN, MASK, SLACK

Floats = npt.NDArray[np.float32]
_Number = TypeVar("_Number", np.int64, np.float32)

UNIFORM_SHARE = 0.12
"""Canvases whose noise is random tokens."""

WRONG_TOKENS = 0.04
"""Hole rows of a mask canvas that show a random token, so that what stands there is not always right."""

ALL_NOISE_SHARE = 0.6
"""Canvases with slack that are all noise: the engine settles lengths there, and on no other kind of canvas."""

_FULL_SLACK_ROWS = 2
_SLACK_WEIGHT = 0.15
"""Slack rows after the first ones of a hole: certain, many, and of no use."""


@dataclass(frozen=True)
class Corrupted:
    """What the decoder sees, and the rows that carry loss."""

    noisy: Ints  # (B, K, C)
    rows: Ints  # (B, R): row numbers in the K * C rows of a stream's canvases
    targets: Ints  # (B, R)
    weights: Floats  # (B, R); 0 where a stream has fewer than R hole rows
    hidden: Bools  # (B, R): rows of text, not slack, that do not show their token


def corrupt(batch: Batch, vocabulary_size: int, rows: int, rng: np.random.Generator) -> Corrupted:
    """Noises the holes of a batch; pinned rows stay as they are. `rows` is R."""
    noisy = _noised(batch, vocabulary_size, rng)
    weights = row_weights(batch.canvas, batch.hole)
    chosen, real = _loss_rows(batch.hole.reshape(len(noisy), -1), rows, rng)
    targets = _rows_of(batch.canvas, chosen)
    hidden = real & (targets != SLACK) & (_rows_of(noisy, chosen) != targets)
    return Corrupted(noisy, chosen, targets, _rows_of(weights, chosen) * real, hidden)


def _rows_of(table: npt.NDArray[_Number], chosen: Ints) -> npt.NDArray[_Number]:
    """(B, K, C) -> the (B, R) chosen rows."""
    return np.take_along_axis(table.reshape(len(table), -1), chosen, axis=1)


def _noised(batch: Batch, vocabulary_size: int, rng: np.random.Generator) -> Ints:
    shape, canvases = batch.canvas.shape, batch.has_slack.shape
    level = rng.random(canvases) * 0.95 + 0.05
    level[batch.has_slack & (rng.random(canvases) < ALL_NOISE_SHARE)] = 1.0
    hidden = rng.random(shape) < level[..., None]
    uniform = (rng.random(canvases) < UNIFORM_SHARE)[..., None]
    random = rng.integers(FIRST_TEXT_TOKEN - 1, vocabulary_size, shape)  # slack is a wrong token too
    wrong = (rng.random(shape) < WRONG_TOKENS) & (level < 1.0)[..., None]
    noise = np.where(uniform | wrong, random, MASK)
    return np.where(batch.hole & (hidden | wrong), noise, batch.canvas)


def row_weights(canvas: Ints, hole: Bools) -> Floats:
    """1 for text and the first slack rows of each hole, little for the slack after them, 0 for pinned rows."""
    slack = hole & (canvas == SLACK)
    run = np.zeros(slack.shape, np.int64)
    count = np.zeros(slack.shape[:-1], np.int64)
    for column in range(slack.shape[-1]):
        count = np.where(slack[..., column], count + 1, 0)
        run[..., column] = count
    return np.where(run > _FULL_SLACK_ROWS, _SLACK_WEIGHT, hole).astype(np.float32)


def _loss_rows(hole: Bools, rows: int, rng: np.random.Generator) -> tuple[Ints, Bools]:
    """R hole rows of each stream, and which of them are real: too few are filled up by repeating one."""
    chosen = np.empty((len(hole), rows), np.int64)
    real = np.zeros((len(hole), rows), bool)
    for number, row in enumerate(hole):
        found = np.flatnonzero(row)
        if len(found) > rows:
            found = np.sort(rng.choice(found, rows, replace=False))
        chosen[number], real[number, : len(found)] = found[0], True
        chosen[number, : len(found)] = found
    return chosen, real
