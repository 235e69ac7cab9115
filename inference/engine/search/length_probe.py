"""How sure a model is of a hole of each length, before anything is written: one pass over canvases of noise.

A hole of the right length makes it surer than its neighbours do; but it is the surer the shorter a hole is, whatever
belongs there, so each is compared with what is usual for its length (CAL, https://arxiv.org/abs/2602.00476). That is
measured for each checkpoint by `infill-ls calibrate`. All lengths fit in one batch, so all are tried; CAL climbs from
one to the next.
"""

from collections.abc import Sequence

import torch

from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.plan import Plan
from inference.engine.loaded_model import LoadedModel
from inference.engine.search.sampler import Noise
from inference.models.family import Context, LengthBias

LENGTHS = 14
"""How many lengths of a line are probed."""
SUFFIX_TOKENS = 24
"""How much of what follows the hole these canvases show."""


@torch.inference_mode()
def confidences(
    model: LoadedModel, context: Context, plan: Plan, noise: Noise, choices: Sequence[tuple[int, ...]]
) -> list[float]:
    """For each choice of lengths the mean probability, at temperature 1, of the likeliest token of each open row."""
    canvas = CanvasBatch.of([plan.layout.compose(each).cut(SUFFIX_TOKENS) for each in choices], model.family.device)
    held = model.constraints.of(canvas, plan.layout.holes)
    ids = canvas.with_holes(noise.rows(len(canvas.hole_rows)))
    logits = context.predict(ids, canvas.hole_rows, valid=canvas.valid) + held.biases[held.of_row]
    sure = canvas.per_canvas(logits.softmax(-1).amax(-1), 0.0).sum(-1) / canvas.counts.clamp(min=1)
    found: list[float] = sure.tolist()
    return found


def best_first(choices: Sequence[tuple[int, ...]], sure: Sequence[float], bias: LengthBias) -> list[tuple[int, ...]]:
    """The choices of which the model is surest for their lengths come first."""
    usual = [sum(size * bias.at(size) for size in each) / max(1, sum(each)) for each in choices]
    order = sorted(range(len(choices)), key=lambda i: -sure[i] / max(usual[i], 1e-9))
    return [choices[i] for i in order]
