"""Whether a model's causal likelihood can be believed: plain code must be likelier to it than it is by chance.

The encoder of a checkpoint may be broken where its canvas is not: converted wrongly, or never trained to predict the
next token. Nothing tells but its numbers, and ranking by them would be ranking at random. A uniform guess costs log V
nats a token; so this is a share of that. Measured: 0.28 and 0.31 with our trained checkpoints, 0.52 with the same in a
language that they were not trained on, 0.74 with the frequencies of tokens alone, 1 and more with random weights.
"""

import math
from contextlib import closing

import torch

from inference.engine.canvas import prompt
from inference.engine.canvas.vocabulary import Vocabulary
from inference.messages import InfillRequest
from inference.models.family import Family

MOST_OF_CHANCE = 0.6
"""The largest share of a uniform guess's nats that is believed."""

_CODE = '''import os


def area(width, height):
    """Return the area of a rectangle."""
    return width * height


def main():
    for name in os.listdir("."):
        print(name)


if __name__ == "__main__":
    main()
'''


def is_plausible(family: Family, vocabulary: Vocabulary) -> bool:
    """Whether the likelihoods of a family that can score may be ranked by."""
    return share_of_chance(family, vocabulary) <= MOST_OF_CHANCE


@torch.inference_mode()
def share_of_chance(family: Family, vocabulary: Vocabulary) -> float:
    """The nats a token that a few lines of plain code cost, as a share of a uniform guess's; inf where it is no number.

    One causal pass over some hundred tokens. Only for a family that can score.
    """
    before = prompt.frame(vocabulary, family.properties, InfillRequest("", ())).before
    before = before or prompt.prefix(vocabulary, family.properties, "", 1)
    code = vocabulary.encode(_CODE)
    with closing(family.open(())) as context:
        for _ in context.encode():
            pass
        (known,) = context.log_probabilities([[*before, *code]])
    share = -float(known[-len(code) :].mean()) / math.log(family.traits.vocabulary_size)
    return share if math.isfinite(share) else math.inf
