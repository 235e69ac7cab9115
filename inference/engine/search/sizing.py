"""What a checkpoint with a slack token says of the length of holes. What is made of it is in length.py."""

import itertools

import msgspec

from inference.engine.canvas.batch import Canvas
from inference.engine.canvas.layout import Layout
from inference.engine.loaded_model import Toolbox
from inference.engine.search.denoise import Denoising, NoiseSource
from inference.models.diffusion_gemma.network import PrefixView


def slack_curves(tools: Toolbox, prefix: PrefixView, layout: Layout, source: NoiseSource) -> list[list[float]]:
    """P(slack) of each slot of each hole, on the canvas with all holes at their widest and nothing but noise.

    At temperature 1, whatever the checkpoint samples at: slack is one token against a spread of others, so that a
    sharper distribution makes it seem likelier than it is, and holes come out far too short.
    """
    holes, slack = layout.holes, tools.properties.slack_token_id
    row = layout.compose([hole.maximum for hole in holes])
    canvas = Canvas.of([row], tools.network.device)
    loop = Denoising(
        tools.network,
        prefix,
        canvas,
        msgspec.structs.replace(tools.properties.sampler, t_max=1.0),
        source,
        constraint=tools.constraints.of(canvas, holes, slack=True),
    )
    curve = loop.predict().softmax(-1)[:, slack].tolist()
    ends = list(itertools.accumulate(hole.maximum for hole in holes))
    return [curve[end - hole.maximum : end] for end, hole in zip(ends, holes, strict=True)]
