"""A batch of canvases as tensors: the candidates of one layout, denoised in one forward pass.

Shapes: B canvases, W rows each, N hole rows of all canvases together in row-major order, V vocabulary size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from inference.engine.layout import OPEN, Row


@dataclass(frozen=True)
class Canvas:
    """Where the holes are and what is pinned. Immutable; the denoising loop holds the changing ids."""

    pinned: Tensor
    """(B, W) ids; 0 at hole rows."""
    is_hole: Tensor
    """(B, W) bool."""
    valid: Tensor | None
    """(B, W) bool, False at rows that only pad the shorter canvases; None where there are none."""
    hole_rows: Tensor
    """(N,) row numbers in the flattened (B * W)."""
    owner: Tensor
    """(N,) the canvas each hole row belongs to."""
    place: Tensor
    """(N,) its number among that canvas's hole rows."""
    counts: Tensor
    """(B,) hole rows of each canvas."""
    spans: tuple[tuple[tuple[int, int, int], ...], ...]
    """For each canvas and hole its rows `[first, open_first, end)`."""

    @classmethod
    def of(cls, rows: Sequence[Row], device: torch.device) -> "Canvas":
        """The batch of these composed canvases, the shorter ones padded with rows nobody attends to."""
        width = max(len(row.ids) for row in rows)
        padded = [[*row.ids, *([OPEN - 1] * (width - len(row.ids)))] for row in rows]
        ids = torch.tensor(padded, dtype=torch.long, device=device)
        is_hole, valid = ids == OPEN, ids >= OPEN
        hole_rows = is_hole.flatten().nonzero()[:, 0]
        return cls(
            pinned=ids.clamp(min=0),
            is_hole=is_hole,
            valid=None if bool(valid.all()) else valid,
            hole_rows=hole_rows,
            owner=hole_rows // width,
            place=(is_hole.cumsum(1) - 1).flatten()[hole_rows],
            counts=is_hole.sum(1),
            spans=tuple(row.spans for row in rows),
        )

    @property
    def lengths(self) -> list[int]:
        """The rows of each canvas that are not padding."""
        return [self.pinned.shape[1]] * self.batch if self.valid is None else self.valid.sum(1).tolist()

    @property
    def batch(self) -> int:
        """B."""
        return self.pinned.shape[0]

    def per_canvas(self, values: Tensor, fill: float) -> Tensor:
        """(N,) values of the hole rows -> (B, most hole rows of a canvas), padded with `fill`."""
        table = values.new_full((self.batch, int(self.counts.max())), fill)
        table[self.owner, self.place] = values
        return table

    def with_holes(self, values: Tensor) -> Tensor:
        """The (B, W) ids with (N,) values at the hole rows and the pinned tokens everywhere else."""
        return self.pinned.flatten().index_put((self.hole_rows,), values).view_as(self.pinned)

    def assert_pinned(self, ids: Tensor) -> None:
        """Raises AssertionError where a (B, W) canvas differs from what is pinned. Pinned means pinned."""
        assert bool((ids == self.pinned).logical_or(self.is_hole).all()), "a pinned token changed"
