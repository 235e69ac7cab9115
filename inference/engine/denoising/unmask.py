"""The sampling loop of masked diffusion models: the most confident rows are unmasked first and then stay fixed.

Each step writes as many rows as a schedule says. With the model exact and temperature 0 it gives the tokens of the
originals (tests/inference/engine/test_unmasking_parity.py), but never writes the mask token. Counts are computed in
float32 if the originals do, so that those between two whole numbers round the same way. Between two steps rows are
added and removed, for a model that writes tokens for that (DreamOn). Shapes: B canvases, N rows, V vocabulary size.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from inference.engine.canvas.batch import FORBIDDEN_BIAS, CanvasBatch, Constraint
from inference.engine.canvas.layout import OPEN_ID, CanvasHole, ComposedCanvas, HoleRows
from inference.engine.denoising import denoise
from inference.engine.denoising.denoise import Denoiser, NoiseSource, PartialNoise
from inference.engine.loaded_model import LoadedModel
from inference.models.family import PrefixHandle
from inference.models.infill_config import SamplerSettings

_LAST_TIME = 1e-3
"""The time at which Dream's and Open-dLLM's schedule ends, which begins at 1."""

_EPSILON = 1e-10
"""Added to a probability before its logarithm, as Dream's does."""

_MAX_DOUBLED_PER_ROW = 2
"""How often rows may be doubled, per row of the holes' maximum. As DreamOn's."""

_TOP_P_TOKENS = 1024
"""How many tokens of a row to sort for top-p, which is nearly always enough."""


def rows_to_unmask_linear(masked: Tensor, step: int, steps: int) -> Tensor:
    """(B,) masked rows -> (B,) how many to unmask now on a linear schedule, often 0; all at the last step."""
    if step >= steps - 1:
        return masked
    times = torch.linspace(1, _LAST_TIME, steps + 1, dtype=torch.float32, device=masked.device)
    return (masked.float() * (1 - times[step + 1] / times[step])).long()


def rows_to_unmask_rounded(masked: Tensor, step: int, steps: int) -> Tensor:
    """(B,) masked rows -> (B,) how many to unmask now by MDLM's rule, which rounds half to even."""
    time, next_time = (torch.tensor((steps - index) / steps, dtype=torch.float32) for index in (step, step + 1))
    share = 1 - (1 - (1 - next_time)) / (1 - (1 - time))
    return (masked.float() * share.to(masked.device)).round().long()


def rows_to_unmask_single(masked: Tensor, step: int, steps: int) -> Tensor:
    """(B,) masked rows -> (B,) one row to unmask now, or more if not enough steps are left."""
    return -(-masked // max(1, steps - step))


UNMASK_SCHEDULES = {"linear": rows_to_unmask_linear, "rounded": rows_to_unmask_rounded, "single": rows_to_unmask_single}
"""By `SamplerSettings.schedule`."""


def filter_top_p(logits: Tensor, top_p: float) -> Tensor:
    """(N, V) logits, the minimum beyond the likeliest tokens whose probabilities together first exceed `top_p`."""
    if top_p >= 1.0:
        return logits
    probs = logits.softmax(-1)
    for count in (min(_TOP_P_TOKENS, logits.shape[-1]), logits.shape[-1]):
        likeliest, tokens = probs.topk(count, -1)
        total = likeliest.cumsum(-1)
        if bool((total[:, -1] > top_p).all()):
            break
    dropped = total - likeliest > top_p
    minimum = torch.finfo(logits.dtype).min
    masked_logits = torch.full_like(logits, minimum)
    return masked_logits.scatter(-1, tokens, logits.gather(-1, tokens).masked_fill(dropped, minimum))


def unmask_confidence(method: str, probabilities: Tensor, tokens: Tensor) -> Tensor:
    """(N,) the confidence in the tokens (N,) to write."""
    if method == "entropy":
        return (probabilities * (probabilities + _EPSILON).log()).sum(-1)  # exact where it is nearly 0, as it often is
    return probabilities.gather(-1, tokens[:, None])[:, 0]


def select_most_confident(table: Tensor, counts: Tensor) -> Tensor:
    """(B, R) confidence, -inf for no row, (B,) counts -> (B, R) bool: the most confident rows; of equals, the first."""
    order = table.argsort(dim=-1, descending=True, stable=True)
    chosen = torch.arange(table.shape[1], device=table.device) < counts[:, None]
    return torch.zeros_like(chosen).scatter(-1, order, chosen) & (table > -torch.inf)


@dataclass(frozen=True)
class ResizeRules:
    """The tokens that double and delete a row, and the minimum and maximum of open rows of each hole."""

    expand_id: int
    delete_id: int
    limits: Sequence[tuple[int, int]]
    budget: int
    """How many rows of a canvas may be doubled: a model could double and delete the same row endlessly."""

    @classmethod
    def from_model(cls, model: LoadedModel, holes: Sequence[CanvasHole]) -> "ResizeRules | None":
        """The rules for canvases with these holes; None if the model cannot resize."""
        config = model.infill_config
        if not model.traits.can_resize:
            return None
        assert config.expand_token_id is not None and config.delete_token_id is not None, "the signal says so"
        budget = _MAX_DOUBLED_PER_ROW * sum(hole.max_rows for hole in holes)
        limits = [(hole.min_rows, hole.max_rows) for hole in holes]
        return cls(config.expand_token_id, config.delete_token_id, limits, budget)

    def resizable_rows(self, canvas: CanvasBatch, doubled: Sequence[int], *, last: bool) -> tuple[Tensor, Tensor]:
        """(N,) bool each: whose hole may grow, and shrink. `doubled`: how many rows of each canvas have been."""
        grows = torch.zeros(canvas.pinned.shape, dtype=torch.bool)
        shrinks = grows.clone()
        for index, spans in enumerate(canvas.spans):
            for (_, first, end), (min_rows, max_rows) in zip(spans, self.limits, strict=True):
                grows[index, first:end] = end - first < max_rows and doubled[index] < self.budget and not last
                shrinks[index, first:end] = end - first > min_rows
        rows = canvas.hole_rows.cpu()
        return grows.flatten()[rows].to(canvas.pinned.device), shrinks.flatten()[rows].to(canvas.pinned.device)


def resize_canvases(
    canvas: CanvasBatch, tokens: Tensor, masked: Tensor, rules: ResizeRules
) -> tuple[CanvasBatch, Tensor, Tensor] | None:
    """The canvases after applying the rows that hold a token of `rules`; None if no written row does.

    Also returns (N',) the old hole row number of each new one, and (N',) bool which are new and masked. `tokens` (N,)
    and `masked` (N,) are those of the hole rows. Rows that would resize a hole beyond its limits become masked again.
    """
    resizes = ~masked & ((tokens == rules.expand_id) | (tokens == rules.delete_id))
    if not bool(resizes.any()):
        return None
    resize_tokens = {row: int(tokens[row]) for row in resizes.nonzero()[:, 0].tolist()}
    hole_rows = itertools.count()
    canvases = []
    old_rows = list[int]()
    added = list[bool]()
    for old in canvas.canvases:
        ids: list[int] = []
        spans: list[HoleRows] = []
        start = 0
        for (begin, first, end), limits in zip(old.spans, rules.limits, strict=True):
            ids += old.ids[start:first]
            opened = len(ids)
            size = end - first
            for old_row in itertools.islice(hole_rows, size):
                copies, is_new, size = _copies(resize_tokens.get(old_row), size, limits, rules)
                ids += [OPEN_ID] * copies
                old_rows += [old_row] * copies
                added += [is_new] * copies
            spans.append((opened - (first - begin), opened, len(ids)))
            start = end
        canvases.append(ComposedCanvas((*ids, *old.ids[start:]), tuple(spans)))
    device = tokens.device
    return (
        CanvasBatch.from_canvases(canvases, device),
        torch.tensor(old_rows, dtype=torch.long, device=device),
        torch.tensor(added, dtype=torch.bool, device=device),
    )


def _copies(resize_token: int | None, size: int, limits: tuple[int, int], rules: ResizeRules) -> tuple[int, bool, int]:
    """For a row with or without such a token: how many rows it becomes, whether they are masked, its hole's size."""
    min_rows, max_rows = limits
    if resize_token is None:
        return 1, False, size
    if resize_token == rules.expand_id:
        return (2, True, size + 1) if size < max_rows else (1, True, size)
    return (0, True, size - 1) if size > min_rows else (1, True, size)


class UnmaskingDenoiser(Denoiser):
    """A batch of canvases whose masked rows are written one or several per step, without feedback."""

    def __init__(
        self,
        context: PrefixHandle,
        canvas: CanvasBatch,
        settings: SamplerSettings,
        noise: NoiseSource,
        *,
        resizing: ResizeRules | None = None,
        start: PartialNoise | None = None,
        **options: Any,
    ) -> None:
        """See `Denoiser`. `resizing`: how holes gain and lose rows, if the model can resize."""
        super().__init__(context, canvas, settings, noise, start=start, **options)
        self._resizing = resizing
        self._masked = torch.ones(len(canvas.hole_rows), dtype=torch.bool, device=canvas.pinned.device)
        if start is not None:
            self._masked = start.noised.clone()
        self._doubled = [0] * canvas.batch_size
        self._time = self.step_number
        self._times = self.max_steps
        self.max_steps = self._max_passes()
        self.step_number = 0

    @property
    def is_finished(self) -> bool:
        """Whether no row is masked, or the steps are used up."""
        return self._time >= self._times or not bool(self._masked.any())

    @torch.inference_mode()
    def step(self) -> None:
        """Makes one forward pass and unmasks rows. Skips steps of the schedule that unmask none."""
        count = UNMASK_SCHEDULES[self._settings.schedule]
        while not bool((due := count(self._per_canvas(self._masked), self._time, self._times)).any()):
            self._time += 1
        running = self._per_canvas(self._masked) > 0
        chosen = self._masked.nonzero()[:, 0]
        tokens, confidence, probs = self._choose_tokens(self._forbid_resizing(self.predict(chosen), chosen))
        self._unmask_rows(chosen, tokens, probs, self._rows_to_write(chosen, confidence, due))
        self.steps += running
        self.step_number += 1
        self._time += 1
        if self._resizing is not None:
            self._resize(self._resizing)

    def continue_with(self, chosen: Sequence[int], canvas: CanvasBatch) -> None:
        old_rows = self._old_hole_rows(chosen, canvas)
        self._masked = self._masked[old_rows]
        self._doubled = [self._doubled[index] for index in chosen]
        super().continue_with(chosen, canvas)

    def _max_passes(self) -> int:
        remaining_steps = self._times - self._time
        rows = int(self._per_canvas(self._masked).max())
        return self.step_number + min(remaining_steps, rows)

    def _per_canvas(self, rows: Tensor) -> Tensor:
        """(N,) bool -> (B,) the count of each canvas."""
        zeros = torch.zeros(self.canvas.batch_size, dtype=torch.long, device=rows.device)
        return zeros.index_add(0, self.canvas.canvas_index, rows.long())

    def _rows_to_write(self, chosen: Tensor, confidence: Tensor, due: Tensor) -> Tensor:
        """(N,) bool: the most confident of the `chosen`, as many of each canvas as are `due` (B,)."""
        confidences = torch.full((len(self._masked),), -torch.inf, device=confidence.device)
        table = self.canvas.pad_by_canvas(confidences.index_put((chosen,), confidence), -torch.inf)
        return select_most_confident(table, due)[self.canvas.canvas_index, self.canvas.hole_position]

    def _unmask_rows(self, chosen: Tensor, new_ids: Tensor, new_probs: Tensor, is_selected: Tensor) -> None:
        """Unmasks the selected rows. The tokens of other masked rows appear only in drafts."""
        tokens = self._argmax.index_put((chosen,), new_ids)
        probs = self._confidence.index_put((chosen,), new_probs)
        self._argmax = torch.where(self._masked, tokens, self._argmax)
        self._confidence = torch.where(self._masked, probs, self._confidence)
        self._masked = self._masked & ~is_selected
        self._current = self.canvas.fill_holes(
            torch.where(self._masked, self._noise.noise_ids(len(self._masked)), self._argmax)
        )

    def _choose_tokens(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(n, V) logits of some rows -> (n,) tokens, the confidence in them and probabilities."""
        points: Iterable[Tensor | None] = itertools.repeat(None)
        if self._temperature():
            points = torch.split(denoise.uniform_draws(len(logits), self._noise.generator), denoise.ROWS_AT_A_TIME)
        parts = map(self._choose_block_tokens, torch.split(logits, denoise.ROWS_AT_A_TIME), points)
        tokens, confidence, probs = map(torch.cat, zip(*parts, strict=True))
        return tokens, confidence, probs

    def _choose_block_tokens(self, logits: Tensor, points: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        logits = filter_top_p(logits, self._settings.top_p)
        probabilities = logits.softmax(-1, dtype=torch.float32)
        tokens = logits.argmax(-1) if points is None else denoise.sample_tokens(probabilities, points)
        confidence = unmask_confidence(self._settings.method, probabilities, tokens)
        return tokens, confidence, probabilities.gather(-1, tokens[:, None])[:, 0]

    def _forbid_resizing(self, logits: Tensor, chosen: Tensor) -> Tensor:
        """(N, V) logits that forbid the tokens that would take a hole beyond its limits."""
        if self._resizing is None:
            return logits
        grows, shrinks = self._resizing.resizable_rows(self.canvas, self._doubled, last=self._time + 1 >= self._times)
        for token, allowed in ((self._resizing.expand_id, grows), (self._resizing.delete_id, shrinks)):
            logits[~allowed[chosen], token] += FORBIDDEN_BIAS
        return logits

    def _resize(self, rules: ResizeRules) -> None:
        """Replaces each doubled row by two masked ones, and removes each deleted one."""
        resized = resize_canvases(self.canvas, self._argmax, self._masked, rules)
        if resized is None:
            return
        for row in (~self._masked & (self._argmax == rules.expand_id)).nonzero()[:, 0].tolist():
            self._doubled[int(self.canvas.canvas_index[row])] += 1
        canvas, old_rows, added = resized
        self.canvas = canvas
        self._masked = self._masked[old_rows] | added
        self._argmax = self._argmax[old_rows]
        self._confidence = self._confidence[old_rows].masked_fill(added, 0.0)
        if self.constraint is not None:
            self.constraint = Constraint(self.constraint.biases, self.constraint.bias_index[old_rows])
        self._current = canvas.fill_holes(torch.where(self._masked, self._noise.noise_ids(len(old_rows)), self._argmax))
        self.max_steps = self._max_passes()
