"""Canvases as tensors: the candidates of one layout, denoised in one forward pass, and the tokens each row may become.

Shapes: B canvases, W rows each, N hole rows of all canvases together in row-major order, V vocabulary size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from inference.engine.canvas.layout import OPEN_ID, CanvasHole, ComposedCanvas, HoleRows
from inference.engine.canvas.vocabulary import Vocabulary
from inference.models.infill_config import ENTROPY_BOUND, InfillConfig

_PADDING = OPEN_ID - 1


@dataclass(frozen=True)
class CanvasBatch:
    """The rows of the holes and the pinned tokens. Immutable; the denoising loop holds the changing ids."""

    canvases: tuple[ComposedCanvas, ...]
    pinned: Tensor
    """(B, W) ids; 0 at hole rows and padding."""
    attention_mask: Tensor | None
    """(B, W) bool, False at rows that only pad the shorter canvases; None if there are none."""
    hole_rows: Tensor
    """(N,) row indices in the flattened (B * W)."""
    canvas_index: Tensor
    """(N,) the canvas each hole row belongs to."""
    hole_position: Tensor
    """(N,) the index of each hole row among those of its canvas."""
    num_hole_rows: Tensor
    """(B,) the number of hole rows of each canvas."""

    @classmethod
    def from_canvases(cls, canvases: Sequence[ComposedCanvas], device: torch.device) -> "CanvasBatch":
        """Builds a batch; shorter canvases get padding rows, which nothing attends to."""
        width = max(len(canvas.ids) for canvas in canvases)
        padded = [[*canvas.ids, *([_PADDING] * (width - len(canvas.ids)))] for canvas in canvases]
        ids = torch.tensor(padded, dtype=torch.long, device=device)
        is_hole = ids == OPEN_ID
        valid = ids != _PADDING
        hole_rows = is_hole.flatten().nonzero()[:, 0]
        return cls(
            canvases=tuple(canvases),
            pinned=ids.clamp(min=0),
            attention_mask=None if bool(valid.all()) else valid,
            hole_rows=hole_rows,
            canvas_index=hole_rows // width,
            hole_position=(is_hole.cumsum(1) - 1).flatten()[hole_rows],
            num_hole_rows=is_hole.sum(1),
        )

    @property
    def lengths(self) -> list[int]:
        return [len(row.ids) for row in self.canvases]

    @property
    def spans(self) -> list[tuple[HoleRows, ...]]:
        """The rows of each hole, by canvas."""
        return [row.spans for row in self.canvases]

    @property
    def batch_size(self) -> int:
        return len(self.canvases)

    def select(self, chosen: Sequence[int], suffix: Sequence[int], width: int) -> "CanvasBatch":
        """The `chosen` canvases, in this order, with `suffix` at their end, cut to `width` rows."""
        rows = [self.canvases[index].with_suffix_cut(0) for index in chosen]
        whole = [ComposedCanvas((*row.ids, *suffix)[:width], row.spans) for row in rows]
        return CanvasBatch.from_canvases(whole, self.pinned.device)

    def pad_by_canvas(self, values: Tensor, fill: float) -> Tensor:
        """(N,) values of the hole rows -> (B, most hole rows of a canvas), padded with `fill`."""
        table = values.new_full((self.batch_size, int(self.num_hole_rows.max())), fill)
        table[self.canvas_index, self.hole_position] = values
        return table

    def fill_holes(self, values: Tensor) -> Tensor:
        """The (B, W) ids with (N,) values at the hole rows and the pinned tokens everywhere else."""
        return self.pinned.flatten().index_put((self.hole_rows,), values).view_as(self.pinned)


FORBIDDEN_BIAS = -1e9
"""Added to the logit of a forbidden token. Finite, so that 0 * log 0 stays 0 in an entropy."""

_ANY_TEXT = 0
_SINGLE_LINE = 1


@dataclass(frozen=True)
class Constraint:
    """The tokens each hole row may become: (K, V) biases on the logits, and the index of the bias for each row (N,)."""

    biases: Tensor
    bias_index: Tensor


class ConstraintBuilder:
    """Builds constraints: only text, no leading line break in a single-line hole, and the required start of a hole."""

    def __init__(self, vocabulary: Vocabulary, infill_config: InfillConfig, size: int, device: torch.device) -> None:
        """`size`: V of the model's logits, which may be larger than the tokenizer's vocabulary."""
        self._vocabulary = vocabulary
        self._infill_config = infill_config
        self._size = size
        self._device = device

    def build(self, canvas: CanvasBatch, holes: Sequence[CanvasHole]) -> Constraint:
        """The constraint of canvases with these holes."""
        kinds = torch.zeros(canvas.pinned.shape, dtype=torch.long, device=self._device)
        biases = [self.text_bias, self._single_line]
        for hole_index, hole in enumerate(holes):
            start = None if hole.allowed_ids is None else len(biases)
            biases += [] if hole.allowed_ids is None else [self._only(hole.allowed_ids)]
            for canvas_index, spans in enumerate(canvas.spans):
                begin, first, end = spans[hole_index]
                kinds[canvas_index, first:end] = _SINGLE_LINE if hole.single_line else _ANY_TEXT
                if start is not None and first == begin + len(hole.forced_ids):
                    kinds[canvas_index, first : first + 1] = start
        table = torch.stack(biases)
        for token in self._resizing:
            table[[_ANY_TEXT, _SINGLE_LINE], token] = 0.0
        return Constraint(table, kinds.flatten()[canvas.hole_rows])

    @property
    def _resizing(self) -> list[int]:
        """The tokens that add or remove rows of a hole, if the denoising loop supports them."""
        config = self._infill_config
        if config.sampler.method == ENTROPY_BOUND or config.expand_token_id is None or config.delete_token_id is None:
            return []
        return [config.expand_token_id, config.delete_token_id]

    @cached_property
    def text_bias(self) -> Tensor:
        """(V,) the bias that allows any text and nothing else. Do not modify."""
        bias = torch.zeros(self._size, device=self._device)
        bias[: self._infill_config.first_text_token_id] = FORBIDDEN_BIAS
        bias[list(self._vocabulary.special_ids)] = FORBIDDEN_BIAS
        bias[len(self._vocabulary) :] = FORBIDDEN_BIAS
        return bias

    @cached_property
    def _single_line(self) -> Tensor:
        bias = self.text_bias.clone()
        bias[self._vocabulary.line_break_ids] = FORBIDDEN_BIAS
        return bias

    def _only(self, allowed: Sequence[int]) -> Tensor:
        """The writable ones among the `allowed` tokens, or all of these if none is, since the text requires them."""
        only = torch.full((self._size,), FORBIDDEN_BIAS, device=self._device)
        ids = list(allowed)
        only[ids] = self.text_bias[ids] if bool((self.text_bias[ids] == 0).any()) else 0.0
        return only
