"""Examples of masked diffusion: prefix, canvas and suffix in one row of tokens, and which of them are masked.

As in MDLM and LLaDA: tokens are masked at a ratio t, only masked rows carry loss, each with weight 1 / t. Half of the
holes are masked whole, for that is how the engine starts; some hide their end only, for small models write mostly in
this order. In some examples every token may be masked, as in plain masked diffusion, and some are clean and causal.
Shapes: B examples of L rows.
"""

from dataclasses import dataclass

import numpy as np

from inference.training.batches import Batch, Bools, Ints
from inference.training.corruption import Floats, later_rows
from inference.training.tokenizer import Tokens

_LEAST_RATIO = 0.15
"""Bounds the weights, which are noise where few rows of a hole are masked."""

_EVERYWHERE_SHARE, _EVERYWHERE_WEIGHT = 0.15, 0.3
"""Examples in which any token may be masked, not those of holes alone. They have more masked rows: each counts less."""

_ALL_SHARE, _IN_ORDER_SHARE, _SHOWN_SHARE = 0.5, 0.15, 0.1
"""Holes that are masked whole; of which the end is; that show their text, as those that are already filled."""


@dataclass(frozen=True)
class MaskedExamples:
    """What the model sees and has to say."""

    clean: Ints  # (B, L)
    noisy: Ints  # (B, L)
    lengths: Ints  # (B,): rows that are no padding
    causal: Bools  # (B,): examples that are read from left to right, every row predicting the next
    weights: Floats  # (B, L): of predicting the token in a row; 0 where it is known


def examples(batch: Batch, tokens: Tokens, rows: int, causal_share: float, rng: np.random.Generator) -> MaskedExamples:
    """Joins each stream's prefix and its one canvas to at most `rows` rows, and masks them."""
    clean, hole, lengths = _joined(batch, rows, tokens.pad)
    count = len(clean)
    causal = np.arange(count) < round(causal_share * count)
    everywhere = rng.random(count) < _EVERYWHERE_SHARE
    any_row = np.arange(rows) < lengths[:, None]
    any_row[:, 0] = False  # nothing stands before it to predict it
    ratio = _ratios(hole, rng)
    ratio[everywhere] = np.where(any_row[everywhere], rng.uniform(_LEAST_RATIO, 1.0, (int(everywhere.sum()), 1)), 0)
    masked = rng.random(ratio.shape) < ratio
    in_order = _chance_by_hole(hole, rng) < _IN_ORDER_SHARE
    in_order[everywhere] = False
    masked = np.where(in_order, later_rows(hole[:, None], rng)[:, 0], masked)
    masked[causal] = False
    weights = np.where(masked, np.where(in_order, 1.0, 1 / np.maximum(ratio, _LEAST_RATIO)), 0.0)
    weights[everywhere] *= _EVERYWHERE_WEIGHT
    weights[causal] = any_row[causal]
    return MaskedExamples(clean, np.where(masked, _mask(tokens), clean), lengths, causal, weights.astype(np.float32))


def _joined(batch: Batch, rows: int, pad: int) -> tuple[Ints, Bools, Ints]:
    """(B, L) tokens, (B, L) rows of holes, (B,) lengths."""
    clean = np.full((len(batch.stream), rows), pad, np.int64)
    hole, lengths = np.zeros(clean.shape, bool), np.empty(len(clean), np.int64)
    for number, (split, length) in enumerate(zip(batch.splits[:, 0], batch.lengths[:, 0], strict=True)):
        end = min(rows, int(split + length))
        clean[number, :split] = batch.stream[number, :split]
        clean[number, split:end] = batch.canvas[number, 0, : end - split]
        hole[number, split:end] = batch.hole[number, 0, : end - split]
        lengths[number] = end
    return clean, hole, lengths


def _ratios(hole: Bools, rng: np.random.Generator) -> Floats:
    """(B, L): the chance of each row to be masked, one for all rows of a hole."""
    kind, level = _chance_by_hole(hole, rng), _LEAST_RATIO + (1 - _LEAST_RATIO) * _chance_by_hole(hole, rng)
    ratio = np.where(kind < _ALL_SHARE, 1.0, np.where(kind < _ALL_SHARE + _SHOWN_SHARE, 0.0, level))
    return np.where(hole, ratio, 0.0)


def _chance_by_hole(hole: Bools, rng: np.random.Generator) -> Floats:
    """(B, L): a number from 0 to 1, the same in all rows of a hole."""
    begins = hole & ~np.roll(hole, 1, axis=1)
    number = np.cumsum(begins, axis=1, dtype=np.int64)
    chances = rng.random((len(hole), hole.shape[1] + 1)).astype(np.float32)
    return np.take_along_axis(chances, number, axis=1)


def _mask(tokens: Tokens) -> int:
    assert tokens.mask is not None, "tokens of the conventions `masked`"
    return tokens.mask
