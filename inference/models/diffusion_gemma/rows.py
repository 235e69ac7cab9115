"""Keys and values of a layer as arrays, (B, heads, rows, head size), of the library that holds them.

Both libraries slice and assign to slices alike. `ArrayRows` covers their differences.
"""

from typing import Any, Protocol

import torch
from torch import Tensor

Array = Any
"""A torch tensor, or an array of another library (models/mlx)."""


class ArrayRows(Protocol):
    """Operations on arrays (B, heads, n, size)."""

    def empty(self, like: Array, count: int) -> Array:
        """A new array like `like` but with `count` rows. Their contents are undefined."""

    def repeated(self, rows: Array, batch: int) -> Array:
        """One batch's rows (1, ...) for each of `batch`, (B, ...), without a copy if possible."""

    def joined(self, first: Array, second: Array) -> Array:
        """A new array: the rows of one, then those of the other."""

    def chosen(self, rows: Array, numbers: Tensor) -> Array:
        """A new array: at each place of the batch the rows of that number, (B,)."""


class TorchRows:
    """`ArrayRows` for torch tensors."""

    def empty(self, like: Tensor, count: int) -> Tensor:
        """See `ArrayRows`."""
        return like.new_empty((*like.shape[:2], count, like.shape[3]))

    def repeated(self, rows: Tensor, batch: int) -> Tensor:
        """See `ArrayRows`."""
        return rows.expand(batch, -1, -1, -1)

    def joined(self, first: Tensor, second: Tensor) -> Tensor:
        """See `ArrayRows`."""
        return torch.cat((first, second), 2)

    def chosen(self, rows: Tensor, numbers: Tensor) -> Tensor:
        """See `ArrayRows`."""
        return rows[numbers]
