"""Asks a model for the length of a hole before writing anything: one pass over noise or masked rows."""

import itertools

import msgspec
import torch

from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.layout import Layout
from inference.engine.canvas.plan import Plan
from inference.engine.loaded_model import LoadedModel
from inference.engine.search.denoise import Denoising
from inference.engine.search.sampler import Noise
from inference.models.family import Context

_FOLLOWING = 3
"""How many of the suffix's tokens to look for at each row."""


def slack_curves(model: LoadedModel, context: Context, layout: Layout, noise: Noise) -> list[list[float]]:
    """P(slack) of each slot of each hole, on the canvas with all holes at their widest and nothing but noise.

    At temperature 1: a sharper distribution exaggerates this one token, and holes come out far too short.
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


@torch.inference_mode()
def end_chances(model: LoadedModel, context: Context, plan: Plan) -> list[float]:
    """For each length from 0 on, its log-probability by a masked model, in one pass; empty if there is none to find.

    Where a hole of too many masked rows ends, the suffix's first tokens are likely in the rows that follow.
    """
    (hole, *others), following = plan.layout.holes, list(plan.layout.suffix[:_FOLLOWING])
    if others or not following or hole.minimum == hole.maximum:
        return []
    rows = min(hole.maximum + len(following), plan.layout.width - len(hole.forced))
    device, mask = model.family.device, model.properties.mask_token_id
    assert mask is not None, "a masked model has one"
    ids = torch.tensor([[*hole.forced, *[mask] * rows]], device=device)
    logits = context.predict(ids, torch.arange(len(hole.forced), len(hole.forced) + rows, device=device))
    chances = logits.log_softmax(-1)[:, following]
    begins = [chances[row : row + len(following)].diagonal().mean() for row in range(min(rows, hole.maximum + 1))]
    found: list[float] = torch.stack(begins).log_softmax(0).tolist()
    return found
