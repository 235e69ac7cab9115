"""What a run trains on: batches of the training and of the held-out files, with their noise, and the objective."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from inference.training import corruption, fim_examples, masked_corruption
from inference.training.batches import Batch, Batches, BatchShape, Mixture
from inference.training.config import Conventions, RunConfig
from inference.training.corpus import SourceFile
from inference.training.corruption import Corrupted
from inference.training.feed import Feed, Noise
from inference.training.fim_examples import FimExampleSource
from inference.training.fim_objective import FimObjective
from inference.training.holes import TrainingDocument
from inference.training.losses import Objective
from inference.training.masked_corruption import MaskedExamples
from inference.training.masked_objective import MaskedObjective
from inference.training.objective import InfillingObjective
from inference.training.tokenizer import Tokens
from inference.training.trainable import TrainableModel
from inference.training.trainer import Material

_HELD_OUT_SEED = 0
"""Held-out losses of runs that differ in their seed can be compared."""

_HELD_OUT_CAUSAL_SHARE = 0.25


def of(config: RunConfig, files: Sequence[SourceFile], chosen: TrainableModel) -> Material:
    """Batches of the files, and the losses of the model that was chosen."""
    conventions = config.model.conventions if config.model is not None else Conventions.OWN
    if conventions is Conventions.FIM:
        return _fim(config, files, chosen)
    masked = conventions is Conventions.MASKED
    data, training = config.data, config.training
    canvases = 1 if masked else data.canvases
    shape = BatchShape(training.streams, data.prefix_tokens, canvases, data.canvas_tokens)
    mixture = Mixture(data.whole_canvases, data.longest_hole_characters, data.most_holes)
    noise = _masks if masked else _noise

    def feed(held_out: bool, seed: int) -> Feed[Any]:
        kept = [TrainingDocument.of(file.text, file.name) for file in files if file.held_out == held_out]
        batches = Batches(kept, chosen.tokenizer, chosen.tokens, shape, seed, chosen.framing, mixture)
        return Feed(batches, noise(config, chosen, held_out), seed)

    objective = (_masked_objective if masked else _objective)(config, chosen)
    return Material(chosen.write, objective, feed(False, training.seed), feed(True, _HELD_OUT_SEED))


def _fim(config: RunConfig, files: Sequence[SourceFile], chosen: TrainableModel) -> Material:
    data, training = config.data, config.training
    shape = BatchShape(training.streams, data.prefix_tokens, 1, data.canvas_tokens)

    def feed(held_out: bool, seed: int) -> Feed[Any]:
        kept = [TrainingDocument.of(file.text, file.name) for file in files if file.held_out == held_out]
        source = FimExampleSource(kept, chosen.tokenizer, shape, seed, data.longest_hole_characters)
        return Feed(source, fim_examples.unchanged, seed)

    objective = FimObjective(
        chosen.model, training.causal_weight, autocast=training.autocast, compiled=training.compile
    )
    return Material(chosen.write, objective, feed(False, training.seed), feed(True, _HELD_OUT_SEED))


def _noise(config: RunConfig, chosen: TrainableModel, held_out: bool) -> Noise[Any]:
    data = config.data
    rows = int(config.training.loss_rows * data.canvases * data.canvas_tokens)
    return partial(_corrupted, chosen.tokens, rows)


def _masks(config: RunConfig, chosen: TrainableModel, held_out: bool) -> Noise[Any]:
    rows, steps = config.data.canvas_tokens, None if held_out else config.training.causal_steps
    return partial(_masked, chosen.tokens, rows, steps)


def _corrupted(
    tokens: Tokens, rows: int, batch: Batch, _step: int, rng: np.random.Generator
) -> tuple[Batch, Corrupted]:
    return batch, corruption.corrupt(batch, tokens, rows, rng)


def _masked(
    tokens: Tokens, rows: int, steps: int | None, batch: Batch, step: int, rng: np.random.Generator
) -> MaskedExamples:
    """`steps` None: of held-out files, the same share is causal at any step."""
    share = _HELD_OUT_CAUSAL_SHARE if steps is None else max(0.0, 1 - step / steps) if steps else 0.0
    return masked_corruption.examples(batch, tokens, rows, share, rng)


def _objective(config: RunConfig, chosen: TrainableModel) -> Objective:
    training = config.training
    return InfillingObjective(
        chosen.model, training.causal_weight, autocast=training.autocast, compiled=training.compile
    )


def _masked_objective(config: RunConfig, chosen: TrainableModel) -> Objective:
    training = config.training
    return MaskedObjective(chosen.model, training.loss_rows, autocast=training.autocast, compiled=training.compile)
