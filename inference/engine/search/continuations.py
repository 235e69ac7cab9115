"""What the model writes when it continues the prefix token by token: further candidates for a line.

A model that is causal as well can be asked for the next token: once for the likeliest tokens, and some times by chance
(drafting, as in Leviathan et al., 2023, https://arxiv.org/abs/2211.17192). It sees nothing of what follows the hole,
but says after every token how likely the suffix's first one comes next: there a continuation may end. Its lengths come
with its words; canvases have to take the length first. Which candidate of all is best the same likelihood tells, that
of the suffix included (rank.py).
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.fills import Written
from inference.engine.canvas.layout import OPEN
from inference.engine.canvas.plan import Plan
from inference.engine.loaded_model import LoadedModel
from inference.engine.search import answers, rank
from inference.models.family import Context

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


def wanted(model: LoadedModel, plan: Plan) -> bool:
    """Whether the prefix is continued: for one hole of a line whose length is open, by a checkpoint that says so."""
    if not model.properties.continuations or len(plan.layout.holes) > 1:
        return False
    (hole,) = plan.layout.holes
    if len(plan.prefix_ids) + plan.layout.width > model.family.traits.continuable_tokens:
        return False
    return hole.single_line and not hole.existing and hole.minimum < hole.maximum


@torch.inference_mode()
def write(
    model: LoadedModel, context: Context, plan: Plan, generator: torch.Generator, late: Callable[[], bool]
) -> Generator[None, None, list[Written]]:
    """The best continuations, best first; each `next` is a forward pass. Once it is `late` no more is written."""
    (hole,), count = plan.layout.holes, model.properties.continuations
    least, most = hole.minimum, min(hole.maximum, _LONGEST)
    if not plan.prefix_ids and not hole.forced:
        return []
    continuation = context.continuation(count, len(hole.forced) + most)
    biases, ends, weights = row_biases(model, plan), _ends(model, plan), answers.weights_for(model, plan)
    lines, found = [_Line() for _ in range(count)], set[_End]()
    fed = torch.tensor([hole.forced] * count, dtype=torch.long, device=model.family.device)
    for number in range(most + 1):
        logits = continuation.feed(fed)
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


def row_biases(model: LoadedModel, plan: Plan) -> list[Tensor]:
    """(V,) added to the logits of the hole's first open row, and of every other: the same as on a canvas."""
    held = model.constraints.of(
        CanvasBatch.of([plan.layout.compose([plan.layout.holes[0].maximum])], model.family.device), plan.layout.holes
    )
    return [held.biases[int(number)] for number in held.of_row[:2]]


def _ends(model: LoadedModel, plan: Plan) -> list[int]:
    """The tokens that may follow the hole: the suffix's first, or, where there is none, whatever ends a line."""
    return [plan.layout.suffix[0]] if plan.layout.suffix else model.vocabulary.line_break_ids


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
