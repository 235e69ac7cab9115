"""The selection rules of published masked-diffusion samplers: how many rows a step writes, and which.

All are pure functions. They compute in float32 if the originals do, so that counts between two whole numbers round the
same way. Shapes: B canvases, N rows, V vocabulary size.
"""

import torch
from torch import Tensor

_LAST_TIME = 1e-3
"""The time at which Dream's and Open-dLLM's schedule ends, which begins at 1."""

_LEAST = 1e-10
"""Added to a probability before its logarithm, as Dream's does."""

_LIKELIEST = 1024
"""How many tokens of a row to sort for top-p, which is nearly always enough."""


def linear_count(masked: Tensor, step: int, steps: int) -> Tensor:
    """(B,) masked rows -> (B,) how many to write now if time falls evenly, often 0; all at the last step."""
    if step >= steps - 1:
        return masked
    times = torch.linspace(1, _LAST_TIME, steps + 1, dtype=torch.float32, device=masked.device)
    return (masked.float() * (1 - times[step + 1] / times[step])).long()


def rounded_count(masked: Tensor, step: int, steps: int) -> Tensor:
    """The same by MDLM's rule: the share of the steps left, rounded to the nearest even number."""
    now, then = (torch.tensor((steps - at) / steps, dtype=torch.float32) for at in (step, step + 1))
    share = 1 - (1 - (1 - then)) / (1 - (1 - now))
    return (masked.float() * share.to(masked.device)).round().long()


def single_count(masked: Tensor, step: int, steps: int) -> Tensor:
    """One row, or as many as it takes to finish with the last step."""
    return -(-masked // max(1, steps - step))


COUNTS = {"linear": linear_count, "rounded": rounded_count, "single": single_count}
"""By `SamplerSettings.schedule`."""


def nucleus(logits: Tensor, top_p: float) -> Tensor:
    """(N, V) logits, the minimum beyond the likeliest tokens whose probabilities together first exceed `top_p`."""
    if top_p >= 1.0:
        return logits
    chances = logits.softmax(-1)
    for count in (min(_LIKELIEST, logits.shape[-1]), logits.shape[-1]):
        likeliest, tokens = chances.topk(count, -1)
        total = likeliest.cumsum(-1)
        if bool((total[:, -1] > top_p).all()):
            break
    dropped = total - likeliest > top_p
    least = torch.finfo(logits.dtype).min
    kept = torch.full_like(logits, least)
    return kept.scatter(-1, tokens, logits.gather(-1, tokens).masked_fill(dropped, least))


def sureness(method: str, probabilities: Tensor, tokens: Tensor) -> Tensor:
    """(N,) the sureness of the tokens (N,) to write; higher is surer."""
    if method == "entropy":
        return (probabilities * (probabilities + _LEAST).log()).sum(-1)  # exact where it is nearly 0, as it often is
    if method == "margin":
        first, second = probabilities.topk(2, -1).values.unbind(-1)
        return first - second
    if method == "p2":
        return probabilities.max(-1).values
    return probabilities.gather(-1, tokens[:, None])[:, 0]


def surest(table: Tensor, counts: Tensor) -> Tensor:
    """(B, R) sureness, -inf for no row, and (B,) counts -> (B, R) bool: the surest rows, the first among equals."""
    order = table.argsort(dim=-1, descending=True, stable=True)
    chosen = torch.arange(table.shape[1], device=table.device) < counts[:, None]
    return torch.zeros_like(chosen).scatter(-1, order, chosen) & (table > -torch.inf)
