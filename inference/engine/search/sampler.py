"""One step of sampling: temperature, acceptance, noise, stopping, by pure functions on the hole rows but for the noise.

DiffusionGemma's method: accept the k rows of lowest entropy such that sum - max <= bound (Ben-Hamu et al., 2025,
https://arxiv.org/abs/2505.24857), put noise back everywhere else, stop when the answer is stable and confident. Shapes:
B canvases, N hole rows in all, R most hole rows of one canvas, V vocabulary size.
"""

import torch
from torch import Tensor

from inference.models.family import Traits
from inference.models.properties import NoiseKind, Properties, SamplerSettings

BLOCK_ROWS = 16
"""The rows of logits to compute on at once, which takes up to ten times their memory: 97 MB for a V of 152,000."""


def temperature(settings: SamplerSettings, steps_left: int, max_steps: int) -> Tensor:
    """The temperature of the step after which `steps_left - 1` of `max_steps` remain, falling from t_max to t_min.

    Computed in float32, as transformers does, so that the same random stream gives the same tokens.
    """
    fraction = torch.tensor(steps_left, dtype=torch.int32) / max_steps
    return settings.t_min + (settings.t_max - settings.t_min) * fraction


def entropy(logits: Tensor, probabilities: Tensor) -> Tensor:
    """(N, V) logits and their softmax -> (N,) entropy in nats."""
    blocks = zip(torch.split(logits, BLOCK_ROWS), torch.split(probabilities, BLOCK_ROWS), strict=True)
    found = [block.logsumexp(-1) - (chances * block).sum(-1) for block, chances in blocks]
    return torch.cat(found).clamp(min=0.0)


def accept(entropies: Tensor, bound: float, at_least: Tensor | None = None) -> Tensor:
    """(B, R) entropies, infinite for no row -> (B, R) bool: the rows to keep now, `at_least` (B,) of them."""
    ordered, order = entropies.sort(-1)
    accepted = ordered.cumsum(-1) - ordered <= bound
    if at_least is not None:
        accepted |= torch.arange(ordered.shape[1], device=ordered.device) < at_least[:, None]
    accepted &= ordered.isfinite()
    return torch.zeros_like(accepted).scatter(-1, order, accepted)


def random_points(count: int, generator: torch.Generator) -> Tensor:
    """(count, 1) the input of `draw`: one random number a row."""
    return torch.rand((count, 1), generator=generator, device=generator.device)


def draw(probabilities: Tensor, points: Tensor) -> Tensor:
    """(N, V) probabilities, (N, 1) `random_points` -> (N,) a token of each row, by its cumulative distribution.

    torch's `multinomial` draws a number for each entry, which is a fifth of a step on a CPU.
    """
    cumulative = probabilities.cumsum(-1)
    total = cumulative[:, -1:]
    point = points * total
    point = torch.minimum(point, torch.nextafter(total, torch.zeros_like(total)))  # never beyond the last token
    return torch.searchsorted(cumulative, point, right=True)[:, 0]


def confident(entropies: Tensor, counts: Tensor, settings: SamplerSettings) -> Tensor:
    """(B, R) entropies, (B,) row counts -> (B,) bool: their mean over hole rows, or their sum, is small enough."""
    total = torch.where(entropies.isfinite(), entropies, 0.0).sum(-1)
    return (total / counts.clamp(min=1) < settings.confidence) | (total < settings.total_entropy)


class UniformNoise:
    """Random tokens. Draws numbers as transformers' `generate` does: for all rows, accepted or not."""

    def __init__(self, vocabulary_size: int, generator: torch.Generator) -> None:
        self._vocabulary_size, self.generator = vocabulary_size, generator

    def rows(self, count: int) -> Tensor:
        """(count,) ids to start from and to renoise with."""
        device = self.generator.device
        return torch.randint(0, self._vocabulary_size, (count,), generator=self.generator, device=device)

    def sample(self, probabilities: Tensor, accepted: Tensor) -> Tensor:
        """(N, V) probabilities, (N,) bool -> (N,) a token of each accepted row; the others are arbitrary."""
        return torch.multinomial(probabilities, 1, generator=self.generator)[:, 0]


class MaskNoise:
    """The checkpoint's mask token."""

    def __init__(self, mask_token_id: int, generator: torch.Generator) -> None:
        self._mask_token_id, self.generator = mask_token_id, generator

    def rows(self, count: int) -> Tensor:
        return torch.full((count,), self._mask_token_id, device=self.generator.device)

    def sample(self, probabilities: Tensor, accepted: Tensor) -> Tensor:
        sampled = torch.zeros_like(accepted, dtype=torch.long)
        chances = probabilities[accepted]
        sampled[accepted] = draw(chances, random_points(len(chances), self.generator))
        return sampled


Noise = UniformNoise | MaskNoise
"""The content of an unknown hole row, and how an accepted row gets its token."""


def noise_of(traits: Traits, properties: Properties, generator: torch.Generator) -> Noise:
    """The noise that a model was trained with."""
    if traits.noise is NoiseKind.UNIFORM:
        return UniformNoise(traits.vocabulary_size, generator)
    assert properties.mask_token_id is not None, "checked when the checkpoint was read"
    return MaskNoise(properties.mask_token_id, generator)
