"""What a model says of the length of a hole before anything is written: one pass over canvases of noise.

With a slack token, how likely each row is not needed. Without one, how sure it is of a hole of each length.

A hole of the right length makes it surer than its neighbours do; but it is the surer the shorter a hole is, whatever
belongs there, so each is compared with what is usual for its length (CAL, https://arxiv.org/abs/2602.00476). That is
measured for each checkpoint by `infill-ls calibrate`. All lengths fit in one batch, so all are tried; CAL climbs from
one to the next.
"""

import itertools
from collections.abc import Sequence

import msgspec
import torch

from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.layout import Layout
from inference.engine.canvas.plan import Plan
from inference.engine.loaded_model import LoadedModel
from inference.engine.search.denoise import Denoising
from inference.engine.search.sampler import Noise
from inference.models.family import Context

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


def slack_curves(model: LoadedModel, context: Context, layout: Layout, noise: Noise) -> list[list[float]]:
    """P(slack) of each slot of each hole, on the canvas with all holes at their widest and nothing but noise.

    At temperature 1, whatever the checkpoint samples at: slack is one token against a spread of others, so that a
    sharper distribution makes it seem likelier than it is, and holes come out far too short.
    """
    holes, slack = layout.holes, model.properties.slack_token_id
    row = layout.compose([hole.maximum for hole in holes])
    canvas = CanvasBatch.of([row], model.family.device)
    loop = Denoising(
        context,
        canvas,
        msgspec.structs.replace(model.properties.sampler, t_max=1.0),
        noise,
        constraint=model.constraints.of(canvas, holes, slack=True),
    )
    curve = loop.predict().softmax(-1)[:, slack].tolist()
    ends = list(itertools.accumulate(hole.maximum for hole in holes))
    return [curve[end - hole.maximum : end] for end, hole in zip(ends, holes, strict=True)]
