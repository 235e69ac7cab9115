"""What a run trains on: batches of the training and of the held-out files, with their noise, and the objective."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from inference.training import corruption
from inference.training.batches import Batch, Batches, BatchShape, Mixture
from inference.training.config import RunConfig
from inference.training.corpus import SourceFile
from inference.training.corruption import Corrupted
from inference.training.feed import Feed
from inference.training.holes import TrainingDocument
from inference.training.objective import InfillingObjective
from inference.training.tokenizer import Tokens
from inference.training.trainable import TrainableModel
from inference.training.trainer import Material

_HELD_OUT_SEED = 0
"""Held-out losses of runs that differ in their seed can be compared."""


def of(config: RunConfig, files: Sequence[SourceFile], chosen: TrainableModel) -> Material:
    """Batches of the files, and the losses of the model that was chosen."""
    data, training = config.data, config.training
    shape = BatchShape(training.streams, data.prefix_tokens, data.canvases, data.canvas_tokens)
    mixture = Mixture(data.whole_canvases, data.longest_hole_characters, data.most_holes)
    noise = partial(_corrupted, chosen.tokens, int(training.loss_rows * data.canvases * data.canvas_tokens))

    def feed(held_out: bool, seed: int) -> Feed[Any]:
        kept = [TrainingDocument.of(file.text, file.name) for file in files if file.held_out == held_out]
        batches = Batches(kept, chosen.tokenizer, chosen.tokens, shape, seed, chosen.framing, mixture)
        return Feed(batches, noise, seed)

    objective = InfillingObjective(
        chosen.model, training.causal_weight, autocast=training.autocast, compiled=training.compile
    )
    return Material(chosen.write, objective, feed(False, training.seed), feed(True, _HELD_OUT_SEED))


def _corrupted(tokens: Tokens, rows: int, batch: Batch, rng: np.random.Generator) -> tuple[Batch, Corrupted]:
    return batch, corruption.corrupt(batch, tokens, rows, rng)
