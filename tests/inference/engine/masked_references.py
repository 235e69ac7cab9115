"""The published samplers of masked-diffusion models, one plain function each, as their papers and code describe them.

Written independently of the engine: one sequence, the whole of it run again at each step by transformers' own Qwen2,
plain Python numbers where the originals have vectors. Temperature 0. In all of them `bias` (n, V), added to the logits,
forbids the mask token, which the originals may write and leave standing; that is the one difference.
"""

from collections.abc import Sequence
from typing import Any

import torch

DREAM_END = 1e-3


@torch.inference_mode()
def logits_of(model: Any, ids: Sequence[int], bias: torch.Tensor, *, shifted: bool) -> torch.Tensor:
    """(n, V) what is predicted of each position."""
    everything = torch.ones(1, 1, len(ids), len(ids), dtype=torch.bool)
    found = model(torch.tensor([list(ids)]), attention_mask=everything).logits[0]
    if shifted:
        found = torch.cat([found[:1], found[:-1]])
    return found + bias


def sure(row: torch.Tensor, algorithm: str, top_p: float = 1.0) -> float:
    if top_p < 1.0:
        ordered, order = row.sort(descending=True)
        total = ordered.softmax(-1).cumsum(-1)
        row = row.clone()
        row[order[1:][total[:-1] > top_p]] = torch.finfo(row.dtype).min
    chances = row.softmax(-1)
    if algorithm == "entropy":
        return float((chances * torch.log(chances + 1e-10)).sum())
    return float(chances.max())


def surest(rows: dict[int, float], count: int) -> list[int]:
    return sorted(rows, key=lambda place: (-rows[place], place))[:count]


def dream(
    model: Any, ids: Sequence[int], mask: int, bias: torch.Tensor, algorithm: str, steps: int, top_p: float = 1.0
) -> list[int]:
    """Dream's `_sample` and Open-dLLM's `_mdm_sample`: `maskgit_plus` and `entropy`."""
    ids = list(ids)
    times = torch.linspace(1, DREAM_END, steps + 1)
    for step in range(steps):
        masked = [place for place, id_ in enumerate(ids) if id_ == mask]
        count = len(masked)
        if step < steps - 1:
            count = int(torch.tensor(len(masked), dtype=torch.float32) * (1 - times[step + 1] / times[step]))
        if count == 0:
            continue
        logits = logits_of(model, ids, bias, shifted=True)
        for place in surest({place: sure(logits[place], algorithm, top_p) for place in masked}, count):
            ids[place] = int(logits[place].argmax())
    return ids


def mdlm(model: Any, ids: Sequence[int], mask: int, bias: torch.Tensor, steps: int) -> list[int]:
    """MDLM's `infill` with the whole sequence as one block: how many at each step is settled beforehand."""
    ids = list(ids)
    left = ids.count(mask)
    counts = []
    for step in range(steps):
        before, after = (torch.tensor((steps - at) / steps, dtype=torch.float32) for at in (step, step + 1))
        share = 1 - (1 - (1 - after)) / (1 - (1 - before))
        counts.append(round(float(torch.tensor(float(left)) * share)))
        left -= counts[-1]
    for count in filter(None, counts):
        logits = logits_of(model, ids, bias, shifted=False)
        masked = {place: sure(logits[place], "low_confidence") for place, id_ in enumerate(ids) if id_ == mask}
        for place in surest(masked, count):
            ids[place] = int(logits[place].argmax())
    return ids


@torch.inference_mode()
def dreamon(
    model: Any,
    ids: Sequence[int],
    mask: int,
    bias: torch.Tensor,
    algorithm: str,
    *,
    expand: int,
    delete: int,
    most_masks: int,
    budget: int,
    top_p: float = 1.0,
) -> tuple[list[int], list[str]]:
    """DreamOn for one hole, `bias` (V,): expands below `most_masks` rows, `budget` times; and what happened."""
    ids, happened = list(ids), []
    rest = len(ids) - ids.count(mask)
    while mask in ids:
        logits = logits_of(model, ids, bias, shifted=True)
        if len(ids) - rest == most_masks or happened.count("expand") == budget:
            logits[:, expand] -= 1e9
        masked = {place: sure(logits[place], algorithm, top_p) for place, id_ in enumerate(ids) if id_ == mask}
        (place,) = surest(masked, 1)
        token = int(logits[place].argmax())
        happened.append("expand" if token == expand else "delete" if token == delete else "write")
        ids[place : place + 1] = {expand: [mask, mask], delete: []}.get(token, [token])
    return ids, happened
