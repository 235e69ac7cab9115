"""The denoising loop: one batch of canvases, one forward pass a step.

Only hole rows get logits, entropies, samples and feedback. With nothing pinned and one full canvas, it draws the random
numbers of transformers' `generate` and gives exactly its tokens (tests/inference/engine/test_parity.py). A step is
DiffusionGemma's: accept the k rows of lowest entropy such that sum - max <= bound (Ben-Hamu et al., 2025,
https://arxiv.org/abs/2505.24857), put noise back everywhere else, stop when the answer is stable and confident. Shapes:
B canvases, W rows of each, N hole rows in all, R most hole rows of one canvas, V vocabulary size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inference.engine.canvas.batch import CanvasBatch, Constraint
from inference.engine.canvas.layout import CanvasHole
from inference.engine.canvas.results import FilledCanvas
from inference.models.family import ModelTraits, PrefixHandle
from inference.models.infill_config import HoleNoise, InfillConfig, SamplerSettings

ROWS_AT_A_TIME = 16
"""How many rows of logits to process at once. That takes up to ten times their memory: 97 MB for a V of 152,000."""


def entropy(logits: Tensor, probabilities: Tensor) -> Tensor:
    """(N, V) logits and their softmax -> (N,) entropy in nats."""
    blocks = zip(torch.split(logits, ROWS_AT_A_TIME), torch.split(probabilities, ROWS_AT_A_TIME), strict=True)
    entropies = [block.logsumexp(-1) - (probs * block).sum(-1) for block, probs in blocks]
    return torch.cat(entropies).clamp(min=0.0)


def accept_rows(entropies: Tensor, bound: float, at_least: Tensor | None = None) -> Tensor:
    """(B, R) entropies, infinite for no row -> (B, R) bool: the rows to keep now, `at_least` (B,) of them."""
    ordered, order = entropies.sort(-1)
    accepted = ordered.cumsum(-1) - ordered <= bound
    if at_least is not None:
        accepted |= torch.arange(ordered.shape[1], device=ordered.device) < at_least[:, None]
    accepted &= ordered.isfinite()
    return torch.zeros_like(accepted).scatter(-1, order, accepted)


def uniform_draws(count: int, generator: torch.Generator) -> Tensor:
    """(count, 1) the input of `sample_tokens`: one random number a row."""
    return torch.rand((count, 1), generator=generator, device=generator.device)


def sample_tokens(probabilities: Tensor, points: Tensor) -> Tensor:
    """(N, V) probabilities, (N, 1) `uniform_draws` -> (N,) a token of each row, by its cumulative distribution.

    torch's `multinomial` draws a number for each entry, which is a fifth of a step on a CPU.
    """
    cumulative = probabilities.cumsum(-1)
    total = cumulative[:, -1:]
    point = points * total
    point = torch.minimum(point, torch.nextafter(total, torch.zeros_like(total)))  # never beyond the last token
    return torch.searchsorted(cumulative, point, right=True)[:, 0]


def are_confident(entropies: Tensor, counts: Tensor, settings: SamplerSettings) -> Tensor:
    """(B, R) entropies, (B,) row counts -> (B,) bool: their mean over hole rows, or their sum, is small enough."""
    total = torch.where(entropies.isfinite(), entropies, 0.0).sum(-1)
    return (total / counts.clamp(min=1) < settings.confidence) | (total < settings.total_entropy)


class NoiseSource:
    """The contents of hole rows without a token, and the sampling of the tokens of accepted rows.

    Noise is the mask token, or else a random token: then random numbers are drawn as in transformers' `generate`, for
    all rows, accepted or not.
    """

    def __init__(self, vocabulary_size: int, generator: torch.Generator, mask_token_id: int | None = None) -> None:
        self._vocabulary_size = vocabulary_size
        self.generator = generator
        self._mask_token_id = mask_token_id

    @classmethod
    def from_model(cls, traits: ModelTraits, infill_config: InfillConfig, generator: torch.Generator) -> "NoiseSource":
        masks = traits.noise is HoleNoise.MASK
        return cls(traits.vocabulary_size, generator, infill_config.mask_token_id if masks else None)

    def noise_ids(self, count: int) -> Tensor:
        """(count,) ids to start from and to renoise with."""
        device = self.generator.device
        if self._mask_token_id is not None:
            return torch.full((count,), self._mask_token_id, device=device)
        return torch.randint(0, self._vocabulary_size, (count,), generator=self.generator, device=device)

    def sample(self, probabilities: Tensor, accepted: Tensor) -> Tensor:
        """(N, V) probabilities, (N,) bool -> (N,) a token of each accepted row; the others are arbitrary."""
        if self._mask_token_id is None:
            return torch.multinomial(probabilities, 1, generator=self.generator)[:, 0]
        sampled = torch.zeros_like(accepted, dtype=torch.long)
        probs = probabilities[accepted]
        sampled[accepted] = sample_tokens(probs, uniform_draws(len(probs), self.generator))
        return sampled


@dataclass(frozen=True)
class PartialNoise:
    """A partly noised start for rewriting text: ids (N,), which of them are noised (N,), and the share of the steps."""

    ids: Tensor
    noised: Tensor
    strength: float

    @classmethod
    def from_holes(
        cls, canvas: CanvasBatch, holes: Sequence[CanvasHole], generator: torch.Generator
    ) -> "PartialNoise | None":
        """Noises a random share of the tokens of the holes that are reworked. None if no hole is."""
        if not any(hole.existing_ids for hole in holes):
            return None
        ids: list[int] = []
        strengths: list[float] = []
        for spans in canvas.spans:
            for (_, first, end), hole in zip(spans, holes, strict=True):
                ids += hole.existing_ids or (0,) * (end - first)
                strengths += [hole.strength] * (end - first)
        device = canvas.pinned.device
        points = torch.rand(len(ids), generator=generator, device=device)
        noised = points < torch.tensor(strengths, device=device)
        return cls(torch.tensor(ids, device=device), noised, max(hole.strength for hole in holes))


class Denoiser:
    """Turns a batch of canvases from noise into text. Call `step` until `is_finished`; a prediction always exists."""

    def __init__(
        self,
        context: PrefixHandle,
        canvas: CanvasBatch,
        settings: SamplerSettings,
        noise: NoiseSource,
        *,
        max_steps: int | None = None,
        constraint: Constraint | None = None,
        start: PartialNoise | None = None,
    ) -> None:
        """`context` must be prefilled, and stay open until the last step."""
        self.canvas = canvas
        self.max_steps = max_steps or settings.max_steps
        self.step_number = 0 if start is None else round(self.max_steps * (1 - start.strength))
        device = canvas.pinned.device
        self.steps = torch.zeros(canvas.batch_size, dtype=torch.long, device=device)
        self._context = context
        self._settings = settings
        self._noise = noise
        self.constraint = constraint
        noised = noise.noise_ids(len(canvas.hole_rows))
        self._argmax = noised if start is None else start.ids
        self._current = canvas.fill_holes(noised if start is None else torch.where(start.noised, noised, start.ids))
        self._confidence = torch.zeros(len(canvas.hole_rows), device=device)
        self.feedback: Tensor | None = None
        """(N, ...) the self-conditioning signal of the latest prediction, a row for each hole row."""
        self._done = torch.zeros(canvas.batch_size, dtype=torch.bool, device=device)
        self._history: list[Tensor] = []

    @property
    def is_finished(self) -> bool:
        """Whether every canvas is stable and confident, or the steps are used up."""
        return self.step_number >= self.max_steps or len(self.canvas.hole_rows) == 0 or bool(self._done.all())

    @property
    def prediction_ids(self) -> Tensor:
        """(B, W): the pinned tokens and, at hole rows, the most probable token of the latest prediction."""
        return self.canvas.fill_holes(self._argmax)

    def filled_canvas(self, index: int) -> FilledCanvas:
        length = self.canvas.lengths[index]
        ids = self.prediction_ids[index, :length].tolist()
        confidences = self.row_confidences[index, :length].tolist()
        return FilledCanvas(ids, confidences, self.canvas.spans[index], int(self.steps[index]))

    @property
    def filled_canvases(self) -> list[FilledCanvas]:
        return [self.filled_canvas(index) for index in range(self.canvas.batch_size)]

    @property
    def row_confidences(self) -> Tensor:
        """(B, W): the probability of each predicted token, at the temperature of its step; 1 if pinned."""
        ones = torch.ones_like(self.canvas.pinned, dtype=self._confidence.dtype)
        return ones.flatten().index_put((self.canvas.hole_rows,), self._confidence).view_as(ones)

    @torch.inference_mode()
    def step(self) -> None:
        """Makes one forward pass over all canvases, and updates their tokens."""
        logits = self.predict()
        probabilities = logits.softmax(-1, dtype=torch.float32)
        entropies = self.canvas.pad_by_canvas(entropy(logits, probabilities), float("inf"))
        accepted = accept_rows(entropies, self._settings.entropy_bound, self._min_accepted())
        is_accepted = accepted[self.canvas.canvas_index, self.canvas.hole_position]
        running = ~self._done[self.canvas.canvas_index]
        sampled = self._noise.sample(probabilities, is_accepted)
        current = self._current.flatten()[self.canvas.hole_rows]
        proposed = torch.where(is_accepted, sampled, self._noise.noise_ids(len(is_accepted)))
        self._current = self.canvas.fill_holes(torch.where(running, proposed, current))
        self._store_prediction(running, logits, probabilities)
        self._update_done(entropies)

    @torch.inference_mode()
    def continue_with(self, chosen: Sequence[int], canvas: CanvasBatch) -> None:
        """Continues with the `chosen` canvases, in this order, in their current state.

        `canvas` has those canvases, perhaps with another suffix.
        """
        index = torch.tensor(list(chosen), device=self._current.device)
        old_rows = self._old_hole_rows(chosen, canvas)
        current = self._current.flatten()[self.canvas.hole_rows[old_rows]]
        self.feedback = None if self.feedback is None else self.feedback[old_rows]
        self._argmax = self._argmax[old_rows]
        self._confidence = self._confidence[old_rows]
        self.steps = self.steps[index]
        if self.constraint is not None:
            self.constraint = Constraint(self.constraint.biases, self.constraint.bias_index[old_rows])
        max_rows = int(canvas.num_hole_rows.max())
        self._history = [ids[index, :max_rows] for ids in self._history]
        self._done = self._done[index]
        self.canvas = canvas
        self._current = canvas.fill_holes(current)

    def _old_hole_rows(self, chosen: Sequence[int], canvas: CanvasBatch) -> Tensor:
        """(N',) the index of the old hole row of each hole row of `canvas`, which has the `chosen` canvases."""
        index = torch.tensor(list(chosen), device=self._current.device)
        positions = index[canvas.canvas_index] * self.canvas.pinned.shape[1] + canvas.hole_rows % canvas.pinned.shape[1]
        return torch.searchsorted(self.canvas.hole_rows, positions)

    @torch.inference_mode()
    def predict(self, chosen: Tensor | None = None) -> Tensor:
        """(N, V) logits of the hole rows, or of the `chosen` (n,), at this step's temperature and constrained."""
        rows = self.canvas.hole_rows
        feedback = self.feedback
        constraint = self.constraint
        bias_index = None if constraint is None else constraint.bias_index
        if chosen is not None:
            rows = rows[chosen]
            bias_index = None if bias_index is None else bias_index[chosen]
            feedback = None if feedback is None else feedback[chosen]
        logits = self._context.predict(self._current, rows, valid=self.canvas.attention_mask, feedback=feedback)
        if constraint is not None and bias_index is not None:
            logits = _add_biases(logits, constraint.biases, bias_index)
        heat = self._temperature().to(logits.device)
        if not heat:
            return logits
        return logits.div_(heat) if constraint is not None else logits / heat  # in place if the tensor is ours

    def _temperature(self) -> Tensor:
        """The temperature of the next step, falling from t_max to t_min.

        Computed in float32, as transformers does, so that the same random stream gives the same tokens.
        """
        fraction = torch.tensor(self.max_steps - self.step_number, dtype=torch.int32) / self.max_steps
        return self._settings.t_min + (self._settings.t_max - self._settings.t_min) * fraction

    def _min_accepted(self) -> Tensor | None:
        if not self._settings.accept_floor:
            return None
        return (self.canvas.num_hole_rows * (self.step_number + 1) / self.max_steps).ceil()

    def _store_prediction(self, running: Tensor, logits: Tensor, probabilities: Tensor) -> None:
        """Stores the predicted tokens, their confidence and the feedback of the canvases that are still running."""
        confidence, argmax = probabilities.max(-1)
        self._argmax = torch.where(running, argmax, self._argmax)
        self._confidence = torch.where(running, confidence, self._confidence)
        feedback = self._context.self_conditioning(logits, probabilities)
        if feedback is not None and self.feedback is not None:
            still = running.view(-1, *[1] * (feedback.ndim - 1))
            feedback = torch.where(still, feedback, self.feedback)
        self.feedback = feedback

    def _update_done(self, entropies: Tensor) -> None:
        """Marks a canvas done once its prediction has been stable for some steps at low mean entropy, or for longer."""
        self.steps += ~self._done
        self.step_number += 1
        prediction = self.canvas.pad_by_canvas(self._argmax, -1)
        settings = self._settings
        is_sure = are_confident(entropies, self.canvas.num_hole_rows, settings)
        self._done |= self._is_unchanged(prediction, settings.stability) & is_sure
        if settings.still_steps:
            self._done |= self._is_unchanged(prediction, settings.still_steps)
        needed = max(settings.stability, settings.still_steps)
        self._history = [*self._history, prediction][-needed:] if needed else []

    def _is_unchanged(self, prediction: Tensor, steps: int) -> Tensor:
        """(B,) bool: whether the prediction (B, R) equals that of each of the last `steps` steps."""
        same = torch.full_like(self._done, len(self._history) >= steps)
        for previous in self._history[len(self._history) - steps :] if steps else []:
            same &= (previous == prediction).all(-1)
        return same


def _add_biases(logits: Tensor, biases: Tensor, bias_index: Tensor) -> Tensor:
    """(N, V) logits, (K, V) biases, (N,) their indices -> (N, V) sums, without another (N, V) in between."""
    sums = torch.empty_like(logits)
    for first in range(0, len(logits), ROWS_AT_A_TIME):
        rows = slice(first, first + ROWS_AT_A_TIME)
        torch.add(logits[rows], biases[bias_index[rows]], out=sums[rows])
    return sums
