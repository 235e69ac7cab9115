"""The denoising loop of published masked-diffusion samplers: written rows stay, and the surest rows come first.

Each step writes as many rows as a schedule says. With the model exact and temperature 0 it gives the tokens of the
originals (tests/inference/engine/test_unmasking_parity.py), but never writes the mask token.
"""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import torch
from torch import Tensor

from inference.engine.canvas.batch import CanvasBatch
from inference.engine.canvas.constraints import FORBIDDEN, Constraint
from inference.engine.canvas.layout import Slots
from inference.engine.loaded_model import LoadedModel
from inference.engine.search import resizing, sampler, unmasking_rules
from inference.engine.search.denoise import Denoising, Start
from inference.engine.search.resizing import Resizing
from inference.engine.search.sampler import Noise
from inference.models.family import Context, LengthSignal
from inference.models.properties import ENTROPY_BOUND, SamplerSettings

_DOUBLED_PER_ROW = 2
"""How often rows may be doubled, per row of the holes' maximum. As DreamOn's."""


class Unmasking(Denoising):
    """A batch of canvases whose masked rows are written one or several per step."""

    def __init__(
        self,
        context: Context,
        canvas: CanvasBatch,
        settings: SamplerSettings,
        noise: Noise,
        *,
        resizing: Resizing | None = None,
        start: Start | None = None,
        **other: Any,
    ) -> None:
        """As `Denoising`. `resizing`: how a hole gains and loses rows, if the model can request that."""
        super().__init__(context, canvas, settings, noise, start=start, **other)
        self._resizing = resizing
        self._masked = torch.ones(len(canvas.hole_rows), dtype=torch.bool, device=canvas.pinned.device)
        if start is not None:
            self._masked = start.noised.clone()
        self._writable = self._masked.clone()
        self._doubled = [0] * canvas.batch
        self._time, self._times = self.step_number, self.max_steps
        self.step_number, self.max_steps = 0, self._most_passes()

    @property
    def finished(self) -> bool:
        """Whether no row is masked, or the steps are used up."""
        return self._time >= self._times or not bool(self._masked.any())

    @torch.inference_mode()
    def step(self) -> None:
        """One forward pass and the rows it writes. Skips steps that would write nothing."""
        while not bool((due := self._due()).any()) and self._settings.method != "p2":
            self._time += 1
        running = self._per_canvas(self._masked) > 0
        chosen = (self._writable if self._settings.method == "p2" else self._masked).nonzero()[:, 0]
        drawn, sure, confidence = self._read(chosen, self._limited(self.predict(chosen), chosen))
        self._write(chosen, drawn, confidence, self._rows_to_write(chosen, sure, due))
        self.steps += running
        self.step_number += 1
        self._time += 1
        self.canvas.assert_pinned(self._current, self._given)
        if self._resizing is not None:
            self._resize(self._resizing)

    def go_on_with(self, chosen: Sequence[int], canvas: CanvasBatch, constraint: Constraint | None = None) -> None:
        """See `Denoising`. Newly pinned rows are no longer masked."""
        picked = self._picked(chosen, canvas)
        self._masked, self._writable = self._masked[picked], self._writable[picked]
        self._doubled = [self._doubled[index] for index in chosen]
        super().go_on_with(chosen, canvas, constraint)

    def _most_passes(self) -> int:
        """The number of steps, without the skipped ones."""
        left = self._times - self._time
        rows = int(self._per_canvas(self._masked).max())
        return self.step_number + (left if self._settings.method == "p2" else min(left, rows))

    def _due(self) -> Tensor:
        """(B,) how many rows of each canvas to write at this step; at a step of p2, how many are unmasked then."""
        if self._settings.method != "p2":
            count = unmasking_rules.COUNTS[self._settings.schedule]
            return count(self._per_canvas(self._masked), self._time, self._times)
        writable = self._per_canvas(self._writable)
        left = 1 - (self._time + 1) / self._times
        return writable - (writable.float() * torch.tensor(left, dtype=torch.float32)).floor().long()

    def _per_canvas(self, rows: Tensor) -> Tensor:
        """(N,) bool -> (B,) the count of each canvas."""
        zeros = torch.zeros(self.canvas.batch, dtype=torch.long, device=rows.device)
        return zeros.index_add(0, self.canvas.owner, rows.long())

    def _rows_to_write(self, chosen: Tensor, sure: Tensor, due: Tensor) -> Tensor:
        """(N,) bool. The rows of p2 that are not among them become masked again."""
        every = torch.full((len(self._masked),), -torch.inf, device=sure.device)
        table = self.canvas.per_canvas(every.index_put((chosen,), sure), -torch.inf)
        return unmasking_rules.surest(table, due)[self.canvas.owner, self.canvas.place]

    def _write(self, chosen: Tensor, drawn: Tensor, confidence: Tensor, written: Tensor) -> None:
        """Writes the drawn tokens into those masked rows; the other rows show theirs only in drafts."""
        tokens, sure = self._argmax.index_put((chosen,), drawn), self._confidence.index_put((chosen,), confidence)
        self._argmax = torch.where(self._masked, tokens, self._argmax)
        self._confidence = torch.where(self._masked, sure, self._confidence)
        self._masked = (self._writable if self._settings.method == "p2" else self._masked) & ~written
        self._current = self.canvas.with_holes(
            torch.where(self._masked, self._noise.rows(len(self._masked)), self._argmax)
        )

    def _read(self, chosen: Tensor, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(n, V) logits of the `chosen` rows -> (n,) tokens, their sureness and probabilities. Stores the feedback."""
        points: Iterable[Tensor | None] = repeat(None)
        if self._heat():
            points = torch.split(sampler.random_points(len(logits), self._noise.generator), sampler.BLOCK_ROWS)
        parts = list(map(self._read_block, torch.split(logits, sampler.BLOCK_ROWS), points))
        drawn, sure, confidence = (torch.cat(each) for each in zip(*(part[:3] for part in parts), strict=True))
        handed_on = [feedback for *_, feedback in parts if feedback is not None]
        if handed_on:
            feedback = torch.cat(handed_on)
            every = feedback.new_zeros((len(self._masked), *feedback.shape[1:]))
            self.feedback = every.index_put((chosen,), feedback)
        return drawn, sure, confidence

    def _read_block(self, logits: Tensor, points: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        logits = unmasking_rules.nucleus(logits, self._settings.top_p)
        probabilities = logits.softmax(-1, dtype=torch.float32)
        drawn = logits.argmax(-1) if points is None else sampler.draw(probabilities, points)
        sure = unmasking_rules.sureness(self._settings.method, probabilities, drawn)
        confidence = probabilities.gather(-1, drawn[:, None])[:, 0]
        return drawn, sure, confidence, self._context.feedback(logits, probabilities)

    def _limited(self, logits: Tensor, chosen: Tensor) -> Tensor:
        """(N, V) logits without the tokens that would take a hole beyond its limits."""
        if self._resizing is None:
            return logits
        grows, shrinks = self._resizing.allowed(self.canvas, self._doubled, last=self._time + 1 >= self._times)
        for token, allowed in ((self._resizing.expand_id, grows), (self._resizing.delete_id, shrinks)):
            logits[~allowed[chosen], token] += FORBIDDEN
        return logits

    def _resize(self, rules: Resizing) -> None:
        """Replaces each doubled row by two masked ones, and removes each deleted one."""
        resized = resizing.resized(self.canvas, self._argmax, self._masked, rules)
        if resized is None:
            return
        for row in (~self._masked & (self._argmax == rules.expand_id)).nonzero()[:, 0].tolist():
            self._doubled[int(self.canvas.owner[row])] += 1
        canvas, picked, added = resized
        self.canvas, self._given = canvas, canvas.pinned.clone()
        self._masked, self._writable = self._masked[picked] | added, self._writable[picked]
        self._argmax, self._confidence = self._argmax[picked], self._confidence[picked].masked_fill(added, 0.0)
        self.feedback = None if self.feedback is None else self.feedback[picked]
        if self.constraint is not None:
            self.constraint = Constraint(self.constraint.biases, self.constraint.of_row[picked])
        self._current = canvas.with_holes(torch.where(self._masked, self._noise.rows(len(picked)), self._argmax))
        self.max_steps = self._most_passes()


def loop(
    model: LoadedModel, context: Context, canvas: CanvasBatch, holes: Sequence[Slots], noise: Noise, **other: Any
) -> Denoising:
    """The checkpoint's loop, for canvases that have these holes. `other`: of `Denoising`."""
    stated = model.properties
    constraint = model.constraints.of(canvas, holes)
    if stated.sampler.method == ENTROPY_BOUND:
        return Denoising(context, canvas, stated.sampler, noise, constraint=constraint, **other)
    resizing = None
    if model.traits.length_signal is LengthSignal.EXPAND_DELETE:
        assert stated.expand_token_id is not None, "the signal says so"
        assert stated.delete_token_id is not None, "the signal says so"
        limits = tuple((hole.minimum, hole.maximum) for hole in holes)
        budget = _DOUBLED_PER_ROW * sum(hole.maximum for hole in holes)
        resizing = Resizing(stated.expand_token_id, stated.delete_token_id, limits, budget)
    return Unmasking(context, canvas, stated.sampler, noise, constraint=constraint, resizing=resizing, **other)
