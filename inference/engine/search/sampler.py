"""One step of sampling, as pure functions on the hole rows: temperature, acceptance, renoising, stopping.

The method is DiffusionGemma's: accept the k rows of lowest entropy such that sum - max <= bound (Ben-Hamu et al., 2025,
https://arxiv.org/abs/2505.24857), put noise back everywhere else, stop when the answer is stable and confident.
Shapes: B canvases, N hole rows in all, R most hole rows of one canvas, V vocabulary size.
"""

import torch
from torch import Tensor

from inference.models.checkpoint import SamplerProperties

FORBIDDEN = -1e9
"""Added to the logit of a token that may not be chosen. Finite, so that 0 * log 0 stays 0 in an entropy."""


def temperature(settings: SamplerProperties, steps_left: int, max_steps: int) -> Tensor:
    """The temperature of the step after which `steps_left - 1` of `max_steps` remain, falling from t_max to t_min.

    Computed in float32, as transformers does, so that the same random stream gives the same tokens.
    """
    fraction = torch.tensor(steps_left, dtype=torch.int32) / max_steps
    return settings.t_min + (settings.t_max - settings.t_min) * fraction


def entropy(logits: Tensor, probabilities: Tensor) -> Tensor:
    """(N, V) logits and their softmax -> (N,) entropy in nats."""
    log_normaliser = logits.logsumexp(-1)
    return (log_normaliser - (probabilities * logits).sum(-1)).clamp(min=0.0)


def accept(entropies: Tensor, bound: float, at_least: Tensor | None = None) -> Tensor:
    """(B, R) entropies, infinite where a canvas has no row -> (B, R) bool: the rows whose tokens are kept this step.

    `at_least` (B,) is how many rows to accept even beyond the bound.
    """
    ordered, order = entropies.sort(-1)
    accepted = ordered.cumsum(-1) - ordered <= bound
    if at_least is not None:
        accepted |= torch.arange(ordered.shape[1], device=ordered.device) < at_least[:, None]
    accepted &= ordered.isfinite()
    return torch.zeros_like(accepted).scatter(-1, order, accepted)


def draw(probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """(N, V) probabilities -> (N,) a token of each row, by its cumulative distribution.

    One random number a row; torch's `multinomial` draws one for each entry, which is a fifth of a step on a CPU.
    """
    cumulative = probabilities.cumsum(-1)
    total = cumulative[:, -1:]
    point = torch.rand(total.shape, generator=generator, device=total.device) * total
    point = torch.minimum(point, torch.nextafter(total, torch.zeros_like(total)))  # never beyond the last token
    return torch.searchsorted(cumulative, point, right=True)[:, 0]


def noise(count: int, vocabulary_size: int, mask_token_id: int | None, generator: torch.Generator) -> Tensor:
    """(count,) ids to start from and to renoise with: random tokens, or the mask token where the checkpoint has one."""
    if mask_token_id is not None:
        return torch.full((count,), mask_token_id, device=generator.device)
    return torch.randint(0, vocabulary_size, (count,), generator=generator, device=generator.device)


def confident(entropies: Tensor, counts: Tensor, threshold: float) -> Tensor:
    """(B, R) entropies, (B,) row counts -> (B,) bool: the mean over hole rows is below the threshold."""
    total = torch.where(entropies.isfinite(), entropies, 0.0).sum(-1)
    return total / counts.clamp(min=1) < threshold
