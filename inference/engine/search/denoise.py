"""The denoising loop: one batch of canvases, one forward pass a step, pins held at every step.

Only hole rows go through lm_head, entropy, sampling and the self-conditioning product; with a vocabulary of 262,144
that is where the stock loop spends its memory. With nothing pinned and one full canvas this loop draws the same random
numbers in the same order as transformers' `generate`, and gives exactly its tokens (tests/inference/engine).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inference.engine.canvas.batch import Canvas
from inference.engine.search import sampler
from inference.models.checkpoint import SamplerProperties
from inference.models.diffusion_gemma.network import Network, PrefixView


@dataclass(frozen=True)
class Constraint:
    """What each hole row may become: (K, V) biases added to the logits, and for each of the N rows which one."""

    biases: Tensor
    of_row: Tensor


@dataclass(frozen=True)
class NoiseSource:
    """How a checkpoint is corrupted: by its mask token, or (None) by random tokens; and the random stream."""

    mask_token_id: int | None
    generator: torch.Generator


@dataclass(frozen=True)
class Start:
    """Existing text to rework: its ids (N,), which of them are noised (N,), and the share of the steps to take."""

    ids: Tensor
    noised: Tensor
    strength: float


class Denoising:
    """A batch of canvases on its way from noise to text. Call `step` until `finished`; an answer stands at any time."""

    def __init__(
        self,
        network: Network,
        prefix: PrefixView,
        canvas: Canvas,
        settings: SamplerProperties,
        source: NoiseSource,
        *,
        max_steps: int | None = None,
        constraint: Constraint | None = None,
        start: "Start | None" = None,
    ) -> None:
        """`prefix` must have as many rows per layer as `canvas` has canvases, and stay valid until the last step."""
        self.canvas = canvas
        self.max_steps = max_steps or settings.max_steps
        self.step_number = 0 if start is None else round(self.max_steps * (1 - start.strength))
        self.steps = torch.zeros(canvas.batch, dtype=torch.long, device=network.device)
        self._network, self._prefix, self._settings, self._source = network, prefix, settings, source
        self._constraint = constraint
        self._given = canvas.pinned.clone()  # memory of its own, so that writing into the canvas is found out
        noise = self._noise()
        self._argmax = noise if start is None else start.ids
        self._current = canvas.with_holes(noise if start is None else torch.where(start.noised, noise, start.ids))
        self._confidence = torch.zeros(len(canvas.hole_rows), device=network.device)
        self._soft: Tensor | None = None
        self._done = torch.zeros(canvas.batch, dtype=torch.bool, device=network.device)
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
        """(B, W): the probability of each token of the answer, at the temperature of its step; 1 where it is pinned."""
        ones = torch.ones_like(self.canvas.pinned, dtype=self._confidence.dtype)
        return ones.flatten().index_put((self.canvas.hole_rows,), self._confidence).view_as(ones)

    @torch.inference_mode()
    def step(self) -> None:
        """One forward pass over all canvases, and what follows from it."""
        logits = self.predict()
        probabilities = logits.softmax(-1, dtype=torch.float32)
        entropies = self.canvas.per_canvas(sampler.entropy(logits, probabilities), float("inf"))
        accepted = sampler.accept(entropies, self._settings.entropy_bound, self._floor())
        kept = accepted[self.canvas.owner, self.canvas.place]
        running = ~self._done[self.canvas.owner]
        sampled = self._sample(probabilities, kept)
        self._advance(running, torch.where(kept, sampled, self._noise()))
        self._remember(running, logits, probabilities)
        self._stop(entropies)
        self.canvas.assert_pinned(self._current, self._given)

    @torch.inference_mode()
    def go_on_with(
        self, chosen: Sequence[int], canvas: Canvas, prefix: PrefixView, constraint: Constraint | None = None
    ) -> None:
        """Goes on with the `chosen` canvases, in this order, as their holes stand.

        `canvas` has those canvases, perhaps with another suffix; `prefix` a row per layer for each. Where some of their
        hole rows are pinned now, `constraint` says what the others may become, and they have to become stable anew.
        """
        index = torch.tensor(list(chosen), device=self._current.device)
        places = index[canvas.owner] * self.canvas.pinned.shape[1] + canvas.hole_rows % canvas.pinned.shape[1]
        picked = torch.searchsorted(self.canvas.hole_rows, places)  # of the hole rows there were
        current = self._current.flatten()[places]
        if self._soft is not None:
            soft = self._network.token_embeddings(canvas.pinned)
            signal = self._soft.flatten(0, 1)[places]
            self._soft = soft.flatten(0, 1).index_put((canvas.hole_rows,), signal).view_as(soft)
        self._argmax, self._confidence = self._argmax[picked], self._confidence[picked]
        self.steps = self.steps[index]
        if constraint is not None:
            self._constraint, self._history, self._done = constraint, [], torch.zeros_like(self._done[index])
        else:
            if self._constraint is not None:
                self._constraint = Constraint(self._constraint.biases, self._constraint.of_row[picked])
            most = int(canvas.counts.max())
            self._history, self._done = [answer[index, :most] for answer in self._history], self._done[index]
        self.canvas, self._prefix, self._given = canvas, prefix, canvas.pinned.clone()
        self._current = canvas.with_holes(current)

    @torch.inference_mode()
    def predict(self) -> Tensor:
        """(N, V) logits of the hole rows, at this step's temperature, impossible tokens forbidden."""
        hidden = self._network.decode(self._current, self._soft, self._prefix, self.canvas.valid)
        logits = self._network.hole_logits(hidden.flatten(0, 1)[self.canvas.hole_rows])
        if self._constraint is not None:
            logits = logits + self._constraint.biases[self._constraint.of_row]
        steps_left = self.max_steps - self.step_number
        return logits / sampler.temperature(self._settings, steps_left, self.max_steps).to(logits.device)

    def _sample(self, probabilities: Tensor, kept: Tensor) -> Tensor:
        """(N,) a token of each row that is kept. Uniform checkpoints draw for all rows, as transformers does."""
        generator = self._source.generator
        if self._source.mask_token_id is None:
            return torch.multinomial(probabilities, 1, generator=generator)[:, 0]
        sampled = torch.zeros_like(kept, dtype=torch.long)
        sampled[kept] = sampler.draw(probabilities[kept], generator)
        return sampled

    def _floor(self) -> Tensor | None:
        if not self._settings.accept_floor:
            return None
        return (self.canvas.counts * (self.step_number + 1) / self.max_steps).ceil()

    def _noise(self) -> Tensor:
        count = len(self.canvas.hole_rows)
        source = self._source
        return sampler.noise(count, self._network.vocabulary_size, source.mask_token_id, source.generator)

    def _advance(self, running: Tensor, proposed: Tensor) -> None:
        current = self._current.flatten()[self.canvas.hole_rows]
        self._current = self.canvas.with_holes(torch.where(running, proposed, current))

    def _remember(self, running: Tensor, logits: Tensor, probabilities: Tensor) -> None:
        """The answer, its confidence and the self-conditioning signal, for the canvases that are still running."""
        confidence, argmax = probabilities.max(-1)
        self._argmax = torch.where(running, argmax, self._argmax)
        self._confidence = torch.where(running, confidence, self._confidence)
        signal = self._network.soft_embeddings(logits, probabilities)
        if self._soft is None:
            self._soft = self._network.token_embeddings(self.canvas.pinned)
        flat = self._soft.flatten(0, 1)
        signal = torch.where(running[:, None], signal, flat[self.canvas.hole_rows])
        self._soft = flat.index_put((self.canvas.hole_rows,), signal).view_as(self._soft)

    def _stop(self, entropies: Tensor) -> None:
        """Stable: the same answer as in each of the last steps. Confident: low mean entropy over the hole rows."""
        self.steps += ~self._done
        self.step_number += 1
        answer = self.canvas.per_canvas(self._argmax, -1)
        needed = self._settings.stability
        stable = torch.full_like(self._done, len(self._history) == needed)
        for earlier in self._history:
            stable &= (earlier == answer).all(-1)
        self._history = [*self._history, answer][-needed:] if needed else []
        self._done |= stable & sampler.confident(entropies, self.canvas.counts, self._settings.confidence)
