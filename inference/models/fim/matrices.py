"""A weight matrix, and how rows are multiplied by it. Shapes: M rows, (O, I) the matrix, M x I -> M x O."""

import warnings
from collections.abc import Iterator
from functools import cache

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


class Packed:
    """(O, I) weights in 8 bits with one scale for each row."""

    def __init__(self, weight: Tensor, scales: Tensor) -> None:
        """`weight` int8 (O, I), `scales` bfloat16 (O,)."""
        self.weight, self.scales = weight, scales
        self.shape = (weight.shape[0], weight.shape[1])

    def rows(self, numbers: Tensor) -> Tensor:
        """(n,) -> these rows of the matrix, float32 (n, I)."""
        return self.weight[numbers].float() * self.scales[numbers].float()[..., None]


_BITS_7 = 63
"""Activations are multiplied as integers of at most this size: AVX2 adds pairs of their products in 16 bits."""
_BITS_14 = 2 * _BITS_7
_LEAST = 1e-30


class Dynamic:
    """Packed weights multiplied by fbgemm, which torch holds for x86.

    Each row of the activations is quantised by its own largest value (dynamic quantisation per token), so its products
    are the same, bit for bit, alone or among any others. `fine`: in 14 bits, as a high and a low row of 7 bits.
    """

    def __init__(self, packed: Packed, *, fine: bool = False) -> None:
        """Keeps its own copy of the weights, whose rows cannot be read."""
        self.shape, self._fine = packed.shape, fine
        self._weight = _prepacked(packed)

    def __call__(self, rows: Tensor) -> Tensor:
        """(M, I) float32 -> (M, O) float32."""
        largest = rows.abs().amax(1, keepdim=True).clamp_(min=_LEAST)  # (M, 1)
        if not self._fine:
            return self._product(rows / largest, 1 / _BITS_7).mul_(largest)
        scaled = rows * (_BITS_7 / largest)
        high = scaled.round()
        made, low = self._product(torch.cat([high, (scaled - high).mul_(_BITS_14)]), 1.0).chunk(2)
        return made.add_(low, alpha=1 / _BITS_14).mul_(largest / _BITS_7)

    def _product(self, rows: Tensor, step: float) -> Tensor:
        """Of rows rounded to multiples of `step`; at most `_BITS_7` of them."""
        found: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            rows, step, _BITS_7 + 1, self._weight
        )
        return found


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


class WeightOnly:
    """Packed weights multiplied on other processors; activations keep their precision.

    A row's products are the same alone or among up to `few` rows: the kernel adds in the same order.
    """

    def __init__(self, packed: Packed, unpacking: Unpacking) -> None:
        self.packed, self._unpacking = packed, unpacking
        self.shape = packed.shape

    def __call__(self, rows: Tensor) -> Tensor:
        """(M, I) float32 -> (M, O)."""
        weight, scales = self.packed.weight, self.packed.scales
        if len(rows) <= self._unpacking.few:
            return torch._weight_int8pack_mm(rows.bfloat16(), weight, scales)
        made = rows.new_empty(len(rows), self.shape[0], dtype=self._unpacking.place.dtype)
        rows = rows.to(made.dtype)
        for first, piece in self._unpacking.pieces(weight):
            made[:, first : first + len(piece)] = functional.linear(rows, piece)
        return made.mul_(scales)

    def rows(self, numbers: Tensor) -> Tensor:
        """(n,) -> these rows of the matrix, float32 (n, I)."""
        return self.packed.rows(numbers)


Matrix = Plain | Dynamic | WeightOnly


@cache
def has_dynamic() -> bool:
    """Whether this processor and this torch have the products of `Dynamic`."""
    able = torch.cpu.get_capabilities()
    return "fbgemm" in torch.backends.quantized.supported_engines and able.get("avx2") is True


def _prepacked(packed: Packed) -> torch.ScriptObject:
    engine = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch 2.13 announces another package for quantised tensors
            zeros = torch.zeros(len(packed.scales), dtype=torch.long)
            whole = torch._make_per_channel_quantized_tensor(packed.weight, packed.scales.double(), zeros, 0)
            return torch.ops.quantized.linear_prepack(whole, None)  # type: ignore[no-any-return]
    finally:
        torch.backends.quantized.engine = engine


def packed_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """(n, I) weights -> int8 (n, I) and the bfloat16 scale (n,) of each row, the exact divisor."""
    rows = rows.float()
    scales = (rows.abs().amax(1) / _STRONGEST).clamp(min=1e-12).bfloat16()
    return (rows / scales.float()[:, None]).round_().clamp_(-_STRONGEST, _STRONGEST).to(torch.int8), scales
