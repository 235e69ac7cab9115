"""Scores fills by masking them again: how likely a masked model finds a fill and the start of the text behind it.

The probabilities with which the model wrote its tokens favour short fills. By the chain rule, the likelihood of a fill
and of the tokens behind it is a product of predictions, each made while everything later is masked: the fill in a few
parts, then the text behind it. Tokens of one part count as independent. The numbers were chosen on lines of
tests/data/tuning.jsonl.gz with tests/data/masked, whose card has the table.
"""

import itertools
from collections.abc import Generator, Sequence

import torch

from inference.engine.canvas.fills import Written
from inference.engine.canvas.plan import Plan
from inference.engine.loaded_model import LoadedModel
from inference.engine.search import length, rank
from inference.engine.search.rank import ScoreWeights
from inference.models.family import Context

PARTS = 5
"""How many passes read a fill; one more reads the text behind it."""


def scores(
    model: LoadedModel,
    context: Context,
    plan: Plan,
    written: Sequence[Written],
    weights: ScoreWeights,
    parts: int = PARTS,
    ends: Sequence[float] = (),
) -> Generator[None, None, list[float]]:
    """The score of each, higher is better. Every `next` makes one pass. Without `parts`, does not read the fills
    themselves. `ends`: the result of `length_probe.end_chances`.
    """
    orders = [_order(one, parts, weights.suffix_tokens) for one in written]
    fills: list[list[float]] = [[] for _ in written]
    behind: list[list[float]] = [[] for _ in written]
    passes = _passes(model, context, written, orders)
    for part in range(parts + 1):
        for values, kept in zip(next(passes), behind if part == parts else fills, strict=True):
            kept += values
        yield
    return [
        _score(plan, one, _with_file(plan, one, inside), outside, weights, ends)
        for one, inside, outside in zip(written, fills, behind, strict=True)
    ]


def _score(
    plan: Plan,
    one: Written,
    fill: Sequence[float],
    behind: Sequence[float],
    weights: ScoreWeights,
    ends: Sequence[float],
) -> float:
    suffix = sum(behind) / len(behind) if behind else None
    score = rank.weighted(sum(fill), len(fill), suffix, weights)
    sizes = [end - first for _, first, end in one.spans]
    score -= weights.unusual * length.unusual(plan.layout.holes, sizes)
    _, first_open, end = one.spans[0]
    return score + weights.end * length.ending(ends, end - first_open)


def _with_file(plan: Plan, one: Written, values: Sequence[float]) -> list[float]:
    """The log-probabilities of a fill's tokens, over all holes in order, mixed with the file's."""
    if plan.file_text is None or not values:
        return list(values)
    known, found = torch.tensor(values), list[float]()
    for first, _, end in one.spans:
        here = known[len(found) : len(found) + end - first]
        found += rank.rescored(plan.file_text, here, plan.prefix_ids, one.ids[:end]).tolist()
    return found


def _order(one: Written, parts: int, following: int) -> list[list[int]]:
    """The open rows in this many parts, from left to right, then up to `following` rows behind each hole."""
    rows = [row for _, first, end in one.spans for row in range(first, end)]
    limits = [*(begin for begin, _, _ in one.spans[1:]), len(one.ids)]
    behind = [
        row
        for (_, _, end), limit in zip(one.spans, limits, strict=True)
        for row in range(end, min(end + following, limit))
    ]
    edges = [len(rows) * part // max(1, parts) for part in range(parts + 1)]
    return [*(rows[start:end] for start, end in itertools.pairwise(edges)), behind]


@torch.inference_mode()
def _passes(
    model: LoadedModel, context: Context, written: Sequence[Written], orders: Sequence[Sequence[Sequence[int]]]
) -> Generator[list[list[float]], None, None]:
    """For each part, in order, the log-probabilities of its tokens on each canvas, all later parts masked."""
    device, mask = model.family.device, model.properties.mask_token_id
    assert mask is not None, "a masked model has one"
    width = max(len(one.ids) for one in written)
    true = torch.tensor([[*one.ids, *[0] * (width - len(one.ids))] for one in written], device=device)
    lengths = torch.tensor([[len(one.ids)] for one in written], device=device)
    valid = torch.arange(width, device=device) < lengths
    flat = true.flatten().clone()
    flat[_rows([[row for part in order for row in part] for order in orders], width, device)] = mask
    for part in zip(*orders, strict=True):
        rows = _rows(part, width, device)
        values: list[float] = []
        if len(rows):
            shown = None if bool(valid.all()) else valid
            logits = context.predict(flat.view_as(true), rows, valid=shown)
            tokens = true.flatten()[rows]
            values = logits.log_softmax(-1).gather(-1, tokens[:, None])[:, 0].tolist()
            flat = flat.index_put((rows,), tokens)
        taken = iter(values)
        yield [[next(taken) for _ in each] for each in part]


def _rows(of_each: Sequence[Sequence[int]], width: int, device: torch.device) -> torch.Tensor:
    """Rows of each canvas as numbers in the flattened (B * W)."""
    numbers = [number * width + row for number, rows in enumerate(of_each) for row in rows]
    return torch.tensor(numbers, dtype=torch.long, device=device)
