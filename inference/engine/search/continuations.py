"""What the encoder itself would write: further candidates for a line, beside the canvases.

The encoder is causal, its lm_head is the decoder's, and training asks it for the next token all along the text. So it
can continue the prefix: once with the likeliest tokens, and some times by chance (drafting, as in Leviathan et al.,
2023, https://arxiv.org/abs/2211.17192). It sees nothing of what follows the hole, but says after every token how likely
the suffix's first one comes next: there a continuation may end. Its lengths come with its words, which is what canvases
lack; they have to take the length first. Which of all is best the same likelihood tells, that of the suffix included
(rank.py).
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from inference.engine.canvas.batch import Canvas
from inference.engine.canvas.layout import OPEN
from inference.engine.canvas.plan import Plan
from inference.engine.loaded_model import Toolbox
from inference.engine.search import answers, rank
from inference.engine.search.answers import Written
from inference.models.diffusion_gemma.prefix_cache import Lease, Saplings

_TEMPERATURE = 0.8
_LONGEST = 24
_UNENDED = 0.5
"""The share of the continuations that may not have come to an end yet when no more is written."""

_KEPT = 8
"""So many of all continuations and their ends are judged exactly."""


class _End(NamedTuple):
    """A continuation up to one of its ends."""

    score: float
    tokens: tuple[int, ...]
    confidences: tuple[float, ...]


@dataclass
class _Line:
    """One continuation: its tokens, and the log-probability and the probability as drawn of each."""

    tokens: list[int] = field(default_factory=list)
    log_probabilities: list[float] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)
    unended: float = 1.0
    """The probability that the suffix has not followed yet."""

    def until_here(self, end: float, weights: rank.Weights) -> _End:
        """`end`: the log-probability that the suffix follows now."""
        self.unended *= 1 - math.exp(end)
        score = rank.weighted(sum(self.log_probabilities), len(self.tokens), end, weights)
        return _End(score, tuple(self.tokens), tuple(self.confidences))


def wanted(tools: Toolbox, plan: Plan) -> bool:
    """Whether the encoder is asked: for one hole of a line whose length is open, of a checkpoint that says so."""
    if not tools.properties.continuations or len(plan.layout.holes) > 1:
        return False
    (hole,) = plan.layout.holes
    if len(plan.prefix_ids) + plan.layout.width > tools.network.window:  # a sliding layer would have to forget rows
        return False
    return hole.single_line and not hole.existing and hole.minimum < hole.maximum


@torch.inference_mode()
def write(
    tools: Toolbox, lease: Lease, plan: Plan, generator: torch.Generator, late: Callable[[], bool]
) -> Generator[None, None, list[Written]]:
    """The best continuations, best first; each `next` is a forward pass. Once it is `late` no more is written."""
    (hole,), count = plan.layout.holes, tools.properties.continuations
    least, most = hole.minimum, min(hole.maximum, _LONGEST)
    begin = [*plan.prefix_ids[-1:], *hole.forced]
    if not begin:
        return []
    saplings = Saplings(lease.view(count, max(0, lease.length - 1)), len(begin) + most)
    biases, ends, weights = _biases(tools, plan), _ends(tools, plan), answers.weights_for(tools, plan)
    lines, found = [_Line() for _ in range(count)], set[_End]()
    fed = torch.tensor([begin] * count, device=tools.network.device)
    for number in range(most + 1):
        logits = tools.network.logits(tools.network.encode(fed, saplings)[:, -1])
        saplings.grow(fed.shape[1])
        if number >= least:
            stops = (logits[:, ends].logsumexp(-1) - logits.logsumexp(-1)).tolist()
            found |= {line.until_here(stop, weights) for line, stop in zip(lines, stops, strict=True)}
            if sum(line.unended for line in lines) < _UNENDED * count:
                break
        if number < most:
            fed = _next(lines, logits, biases[min(number, 1)], generator)
        yield
        if late():
            break
    best = sorted(found, key=lambda end: (-end.score, end.tokens))[:_KEPT]
    return [_on_canvas(plan, end) for end in best]


def _biases(tools: Toolbox, plan: Plan) -> list[Tensor]:
    """(V,) added to the logits of the hole's first open row, and of every other: the same as on a canvas."""
    held = tools.constraints.of(
        Canvas.of([plan.layout.compose([plan.layout.holes[0].maximum])], tools.network.device), plan.layout.holes
    )
    return [held.biases[int(number)] for number in held.of_row[:2]]


def _ends(tools: Toolbox, plan: Plan) -> list[int]:
    """The tokens that may follow the hole: the suffix's first, or, where there is none, whatever ends a line."""
    return [plan.layout.suffix[0]] if plan.layout.suffix else tools.vocabulary.line_break_ids


def _next(lines: Sequence[_Line], logits: Tensor, bias: Tensor, generator: torch.Generator) -> Tensor:
    """(K, 1) a token for each line, which they note: the likeliest for the first, drawn for the others."""
    chances = ((logits + bias) / _TEMPERATURE).softmax(-1)
    drawn = torch.multinomial(chances, 1, generator=generator)
    drawn[0] = chances[0].argmax()
    log_probabilities = logits.log_softmax(-1).gather(1, drawn)
    for line, token, log_probability, chance in zip(
        lines,
        drawn[:, 0].tolist(),
        log_probabilities[:, 0].tolist(),
        chances.gather(1, drawn)[:, 0].tolist(),
        strict=True,
    ):
        line.tokens.append(token)
        line.log_probabilities.append(log_probability)
        line.confidences.append(chance)
    return drawn


def _on_canvas(plan: Plan, end: _End) -> Written:
    row = plan.layout.compose([len(end.tokens)])
    given = dict(zip((index for index, id_ in enumerate(row.ids) if id_ == OPEN), range(len(end.tokens)), strict=True))
    return Written(
        [end.tokens[given[index]] if index in given else id_ for index, id_ in enumerate(row.ids)],
        [end.confidences[given[index]] if index in given else 1.0 for index in range(len(row.ids))],
        row.spans,
        len(end.tokens),
    )
