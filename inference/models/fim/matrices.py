"""A weight matrix, and how rows are multiplied by it. Shapes: M rows, (O, I) the matrix, M x I -> M x O."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional

_STRONGEST = 127.0


class Plain:
    """(O, I) weights in the dtype of the computation."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self.shape = (weight.shape[0], weight.shape[1])

    def __call__(self, rows: Tensor) -> Tensor:
        """(M, I) float32 -> (M, O), in the dtype of the computation."""
        return functional.linear(rows.to(self.weight.dtype), self.weight)

    def rows(self, numbers: Tensor) -> Tensor:
        """(n,) -> these rows of the matrix, float32 (n, I)."""
        return self.weight[numbers].float()


_NEAR_WEIGHTS = 1 << 21
"""Unpack this many weights at a time: 4 MB, still in a cache when used. With all of a matrix at a time, 256 rows took 4
% less time, 64 rows 9 % more.
"""


class Unpacking:
    """Multiplies all packed matrices of a model by many rows: unpacks them piece by piece, in one shared place.

    `few`: up to this many rows the kernel for packed weights is faster, which reads them once for every four rows.
    """

    def __init__(self, dtype: torch.dtype, few: int) -> None:
        self.few, self.place = few, torch.empty(_NEAR_WEIGHTS, dtype=dtype)

    def pieces(self, weight: Tensor) -> Iterator[tuple[int, Tensor]]:
        """An int8 (O, I) in pieces, each with the number of its first channel."""
        step = max(1, len(self.place) // weight.shape[1])
        for first in range(0, len(weight), step):
            piece = weight[first : first + step]
            yield first, self.place[: piece.numel()].view(piece.shape).copy_(piece)


class Packed:
    """(O, I) weights in 8 bits with one scale for each output channel; activations keep their precision.

    A row's products are the same alone or among up to `few` rows: the kernel adds in the same order.
    """

    def __init__(self, weight: Tensor, scales: Tensor, unpacking: Unpacking) -> None:
        """`weight` int8 (O, I), `scales` bfloat16 (O,)."""
        self.weight, self.scales, self._unpacking = weight, scales, unpacking
        self.shape = (weight.shape[0], weight.shape[1])

    def __call__(self, rows: Tensor) -> Tensor:
        if len(rows) <= self._unpacking.few:
            return torch._weight_int8pack_mm(rows.bfloat16(), self.weight, self.scales)
        made = rows.new_empty(len(rows), self.shape[0], dtype=self._unpacking.place.dtype)
        rows = rows.to(made.dtype)
        for first, piece in self._unpacking.pieces(self.weight):
            made[:, first : first + len(piece)] = functional.linear(rows, piece)
        return made.mul_(self.scales)

    def rows(self, numbers: Tensor) -> Tensor:
        return self.weight[numbers].float() * self.scales[numbers].float()[..., None]


Matrix = Plain | Packed


def packed_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """(n, I) weights -> int8 (n, I) and the bfloat16 scale (n,) of each row, the exact divisor."""
    rows = rows.float()
    scales = (rows.abs().amax(1) / _STRONGEST).clamp(min=1e-12).bfloat16()
    return (rows / scales.float()[:, None]).round_().clamp_(-_STRONGEST, _STRONGEST).to(torch.int8), scales
