"""The denoising loop: one batch of canvases, one forward pass a step, pins held at every step.

Only hole rows get logits, entropies, samples and feedback. With nothing pinned and one full canvas, it draws the random
numbers of transformers' `generate` and gives exactly its tokens (tests/inference/engine/test_parity.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.constraints import Constraint
from inference.engine.canvas.layout import Slots
from inference.engine.search import sampler
from inference.engine.search.sampler import Noise
from inference.models.family import Context
from inference.models.properties import SamplerSettings


@dataclass(frozen=True)
class Start:
    """Existing text to rework: its ids (N,), a mask of the noised ones (N,), and the share of the steps to take."""

    ids: Tensor
    noised: Tensor
    strength: float

    @classmethod
    def of(cls, canvas: CanvasBatch, holes: Sequence[Slots], generator: torch.Generator) -> "Start | None":
        """None where no text is reworked; else some of its tokens, at random, are noised."""
        if not any(hole.existing for hole in holes):
            return None
        ids: list[int] = []
        strengths: list[float] = []
        for spans in canvas.spans:
            for (_, first, end), hole in zip(spans, holes, strict=True):
                ids += hole.existing or (0,) * (end - first)
                strengths += [hole.strength] * (end - first)
        device = canvas.pinned.device
        chances = torch.rand(len(ids), generator=generator, device=device)
        noised = chances < torch.tensor(strengths, device=device)
        return cls(torch.tensor(ids, device=device), noised, max(hole.strength for hole in holes))


class Denoising:
    """Turns a batch of canvases from noise into text. Call `step` until `finished`; an answer is always available."""

    def __init__(
        self,
        context: Context,
        canvas: CanvasBatch,
        settings: SamplerSettings,
        noise: Noise,
        *,
        max_steps: int | None = None,
        constraint: Constraint | None = None,
        start: Start | None = None,
    ) -> None:
        """`context` must be encoded, and stay open until the last step."""
        self.canvas = canvas
        self.max_steps = max_steps or settings.max_steps
        self.step_number = 0 if start is None else round(self.max_steps * (1 - start.strength))
        device = canvas.pinned.device
        self.steps = torch.zeros(canvas.batch, dtype=torch.long, device=device)
        self._context, self._settings, self._noise = context, settings, noise
        self.constraint = constraint
        self._given = canvas.pinned.clone()  # separate memory, to detect writes into the canvas
        noised = noise.rows(len(canvas.hole_rows))
        self._argmax = noised if start is None else start.ids
        self._current = canvas.with_holes(noised if start is None else torch.where(start.noised, noised, start.ids))
        self._confidence = torch.zeros(len(canvas.hole_rows), device=device)
        self.feedback: Tensor | None = None
        """(N, ...) the latest prediction's feedback to the next, a row for each hole row. Only the model reads it."""
        self._done = torch.zeros(canvas.batch, dtype=torch.bool, device=device)
        self._history: list[Tensor] = []

    @property
    def finished(self) -> bool:
        """Whether every canvas is stable and confident, or the steps are used up."""
        return self.step_number >= self.max_steps or len(self.canvas.hole_rows) == 0 or bool(self._done.all())

    @property
    def answer(self) -> Tensor:
        """(B, W): the pinned tokens and, at hole rows, the most probable token of the latest prediction."""
        return self.canvas.with_holes(self._argmax)

    @property
    def row_confidences(self) -> Tensor:
        """(B, W): the probability of each token of the answer, at the temperature of its step; 1 if pinned."""
        ones = torch.ones_like(self.canvas.pinned, dtype=self._confidence.dtype)
        return ones.flatten().index_put((self.canvas.hole_rows,), self._confidence).view_as(ones)

    @torch.inference_mode()
    def step(self) -> None:
        """One forward pass over all canvases, and its consequences."""
        logits = self.predict()
        probabilities = logits.softmax(-1, dtype=torch.float32)
        entropies = self.canvas.per_canvas(sampler.entropy(logits, probabilities), float("inf"))
        accepted = sampler.accept(entropies, self._settings.entropy_bound, self._floor())
        kept = accepted[self.canvas.owner, self.canvas.place]
        running = ~self._done[self.canvas.owner]
        sampled = self._noise.sample(probabilities, kept)
        self._advance(running, torch.where(kept, sampled, self._noise.rows(len(kept))))
        self._remember(running, logits, probabilities)
        self._stop(entropies)
        self.canvas.assert_pinned(self._current, self._given)

    @torch.inference_mode()
    def go_on_with(self, chosen: Sequence[int], canvas: CanvasBatch, constraint: Constraint | None = None) -> None:
        """Continues with the `chosen` canvases, in this order, in their current state.

        `canvas` has those canvases, perhaps with another suffix. If some of their hole rows are now pinned,
        `constraint` applies to the others, which must become stable again.
        """
        index = torch.tensor(list(chosen), device=self._current.device)
        picked = self._picked(chosen, canvas)
        current = self._current.flatten()[self.canvas.hole_rows[picked]]
        self.feedback = None if self.feedback is None else self.feedback[picked]
        self._argmax, self._confidence = self._argmax[picked], self._confidence[picked]
        self.steps = self.steps[index]
        if constraint is not None:
            self.constraint, self._history, self._done = constraint, [], torch.zeros_like(self._done[index])
        else:
            if self.constraint is not None:
                self.constraint = Constraint(self.constraint.biases, self.constraint.of_row[picked])
            most = int(canvas.counts.max())
            self._history, self._done = [answer[index, :most] for answer in self._history], self._done[index]
        self.canvas, self._given = canvas, canvas.pinned.clone()
        self._current = canvas.with_holes(current)

    def _picked(self, chosen: Sequence[int], canvas: CanvasBatch) -> Tensor:
        """(N',) the number of the old hole row for each of those of `canvas`, which has the `chosen` canvases."""
        index = torch.tensor(list(chosen), device=self._current.device)
        places = index[canvas.owner] * self.canvas.pinned.shape[1] + canvas.hole_rows % canvas.pinned.shape[1]
        return torch.searchsorted(self.canvas.hole_rows, places)

    @torch.inference_mode()
    def predict(self, chosen: Tensor | None = None) -> Tensor:
        """(N, V) logits of the hole rows, or of the `chosen` (n,), at this step's temperature and constrained."""
        rows, feedback, constraint = self.canvas.hole_rows, self.feedback, self.constraint
        of_row = None if constraint is None else constraint.of_row
        if chosen is not None:
            rows, of_row = rows[chosen], None if of_row is None else of_row[chosen]
            feedback = None if feedback is None else feedback[chosen]
        logits = self._context.predict(self._current, rows, valid=self.canvas.valid, feedback=feedback)
        if constraint is not None and of_row is not None:
            logits = _biased(logits, constraint.biases, of_row)
        heat = self._heat().to(logits.device)
        if not heat:
            return logits
        return logits.div_(heat) if constraint is not None else logits / heat  # in place if the tensor is ours

    def _heat(self) -> Tensor:
        """The temperature of this step."""
        return sampler.temperature(self._settings, self.max_steps - self.step_number, self.max_steps)

    def _floor(self) -> Tensor | None:
        if not self._settings.accept_floor:
            return None
        return (self.canvas.counts * (self.step_number + 1) / self.max_steps).ceil()

    def _advance(self, running: Tensor, proposed: Tensor) -> None:
        current = self._current.flatten()[self.canvas.hole_rows]
        self._current = self.canvas.with_holes(torch.where(running, proposed, current))

    def _remember(self, running: Tensor, logits: Tensor, probabilities: Tensor) -> None:
        """The answer, its confidence and the feedback, for the canvases that are still running."""
        confidence, argmax = probabilities.max(-1)
        self._argmax = torch.where(running, argmax, self._argmax)
        self._confidence = torch.where(running, confidence, self._confidence)
        feedback = self._context.feedback(logits, probabilities)
        if feedback is not None and self.feedback is not None:
            still = running.view(-1, *[1] * (feedback.ndim - 1))
            feedback = torch.where(still, feedback, self.feedback)
        self.feedback = feedback

    def _stop(self, entropies: Tensor) -> None:
        """Stops on the same answer as in the last steps plus low entropy over the hole rows; or the same for longer."""
        self.steps += ~self._done
        self.step_number += 1
        answer, settings = self.canvas.per_canvas(self._argmax, -1), self._settings
        confident = sampler.confident(entropies, self.canvas.counts, settings)
        self._done |= self._same(answer, settings.stability) & confident
        if settings.still_steps:
            self._done |= self._same(answer, settings.still_steps)
        needed = max(settings.stability, settings.still_steps)
        self._history = [*self._history, answer][-needed:] if needed else []

    def _same(self, answer: Tensor, steps: int) -> Tensor:
        """(B,) bool: whether the answer (B, R) equals that of each of the last `steps` steps."""
        same = torch.full_like(self._done, len(self._history) >= steps)
        for earlier in self._history[len(self._history) - steps :] if steps else []:
            same &= (earlier == answer).all(-1)
        return same


def _biased(logits: Tensor, biases: Tensor, of_row: Tensor) -> Tensor:
    """(N, V) logits, (K, V) biases, (N,) their indices -> (N, V) sums, without another (N, V) in between."""
    sums = torch.empty_like(logits)
    for first in range(0, len(logits), sampler.BLOCK_ROWS):
        rows = slice(first, first + sampler.BLOCK_ROWS)
        torch.add(logits[rows], biases[of_row[rows]], out=sums[rows])
    return sums
