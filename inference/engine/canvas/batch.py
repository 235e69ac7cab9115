"""A batch of canvases as tensors: the candidates of one layout, denoised in one forward pass.

Shapes: B canvases, W rows each, N hole rows of all canvases together in row-major order, V vocabulary size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inference.engine.canvas.layout import OPEN, HoleRows, Row

_PADDING = OPEN - 1


@dataclass(frozen=True)
class CanvasBatch:
    """The places of the holes and the pinned tokens. Immutable; the denoising loop holds the changing ids."""

    pinned: Tensor
    """(B, W) ids; 0 at hole rows."""
    is_hole: Tensor
    """(B, W) bool."""
    valid: Tensor | None
    """(B, W) bool, False at rows that only pad the shorter canvases; None if there are none."""
    hole_rows: Tensor
    """(N,) row numbers in the flattened (B * W)."""
    owner: Tensor
    """(N,) the canvas each hole row belongs to."""
    place: Tensor
    """(N,) its number among that canvas's hole rows."""
    counts: Tensor
    """(B,) the number of hole rows of each canvas."""
    spans: tuple[tuple[HoleRows, ...], ...]
    """The rows of each hole, by canvas."""

    @classmethod
    def of(cls, rows: Sequence[Row], device: torch.device) -> "CanvasBatch":
        """The batch of these composed canvases; shorter ones get padding rows without attention."""
        width = max(len(row.ids) for row in rows)
        padded = [[*row.ids, *([_PADDING] * (width - len(row.ids)))] for row in rows]
        return cls._of_ids(torch.tensor(padded, dtype=torch.long, device=device), tuple(row.spans for row in rows))

    @classmethod
    def _of_ids(cls, ids: Tensor, spans: tuple[tuple[HoleRows, ...], ...]) -> "CanvasBatch":
        """(B, W) ids with OPEN at hole rows and _PADDING behind the shorter canvases."""
        is_hole, valid = ids == OPEN, ids != _PADDING
        width = ids.shape[1]
        hole_rows = is_hole.flatten().nonzero()[:, 0]
        return cls(
            pinned=ids.clamp(min=0),
            is_hole=is_hole,
            valid=None if bool(valid.all()) else valid,
            hole_rows=hole_rows,
            owner=hole_rows // width,
            place=(is_hole.cumsum(1) - 1).flatten()[hole_rows],
            counts=is_hole.sum(1),
            spans=spans,
        )

    @property
    def lengths(self) -> list[int]:
        """The rows of each canvas that are not padding."""
        return [self.pinned.shape[1]] * self.batch if self.valid is None else self.valid.sum(1).tolist()

    @property
    def batch(self) -> int:
        """B."""
        return self.pinned.shape[0]

    def pin(self, keep: Sequence[int], answer: Tensor, hole: int, counts: Sequence[int]) -> "CanvasBatch":
        """The canvases `keep`, the first `counts[i]` rows of one hole pinned to those of the answer (B, W)."""
        ids = self.pinned.masked_fill(self.is_hole, OPEN)
        ids = ids if self.valid is None else ids.masked_fill(~self.valid, _PADDING)
        spans = [list(self.spans[index]) for index in keep]
        for row, (index, count) in enumerate(zip(keep, counts, strict=True)):
            first, open_first, end = spans[row][hole]
            ids[index, first : first + count] = answer[index, first : first + count]
            spans[row][hole] = (first, max(open_first, first + count), end)
        return self._of_ids(ids[list(keep)], tuple(tuple(each) for each in spans))

    def keep(self, chosen: Sequence[int], suffix: Sequence[int], width: int) -> "CanvasBatch":
        """Some of the canvases, in this order, followed by this suffix cut to `width` rows."""
        ids = self.pinned.masked_fill(self.is_hole, OPEN).tolist()
        rows = [Row((*ids[index][: self.spans[index][-1][2]], *suffix)[:width], self.spans[index]) for index in chosen]
        return CanvasBatch.of(rows, self.pinned.device)

    def per_canvas(self, values: Tensor, fill: float) -> Tensor:
        """(N,) values of the hole rows -> (B, most hole rows of a canvas), padded with `fill`."""
        table = values.new_full((self.batch, int(self.counts.max())), fill)
        table[self.owner, self.place] = values
        return table

    def with_holes(self, values: Tensor) -> Tensor:
        """The (B, W) ids with (N,) values at the hole rows and the pinned tokens everywhere else."""
        return self.pinned.flatten().index_put((self.hole_rows,), values).view_as(self.pinned)

    def assert_pinned(self, ids: Tensor, given: Tensor) -> None:
        """Raises AssertionError if (B, W) ids differ from the given ids outside the holes."""
        assert bool((ids == given).logical_or(self.is_hole).all()), "a pinned token changed"
