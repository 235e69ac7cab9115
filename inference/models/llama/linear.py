"""Linear layers without bias, dense or in int8. Shapes: M rows, (O, I) the weight, M x I -> M x O."""

import sys
import warnings
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from inference.models import devices
from inference.models.packed import PackedLinear

_INT8_MAX = 127.0


class DenseLinear:
    """(O, I) weights in the dtype of the computation."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self.shape = (weight.shape[0], weight.shape[1])

    def __call__(self, rows: Tensor, plus: Tensor | None = None) -> Tensor:
        """(M, I) float32 -> (M, O), in the dtype of the computation; with `plus` added, in the wider of both."""
        product = functional.linear(rows.to(self.weight.dtype), self.weight)
        return product if plus is None else plus + product

    def rows(self, numbers: Tensor) -> Tensor:
        """(n,) -> these rows of the matrix, float32 (n, I)."""
        return self.weight[numbers].float()


class Int8Weight:
    """(O, I) weights in int8 with one scale per row."""

    def __init__(self, weight: Tensor, scales: Tensor) -> None:
        """`weight` int8 (O, I), `scales` bfloat16 (O,)."""
        self.weight = weight
        self.scales = scales
        self.shape = (weight.shape[0], weight.shape[1])

    def rows(self, numbers: Tensor) -> Tensor:
        """(n,) -> these rows of the matrix, float32 (n, I)."""
        return self.weight[numbers].float() * self.scales[numbers].float()[..., None]


_MIN_ABS = 1e-30


class Int8DynamicLinear:
    """Dynamic int8 (W8A8) linear layer on fbgemm, which torch ships for x86.

    Each row of the activations is quantised by its own largest value (dynamic quantisation per token), so its products
    are the same, bit for bit, alone or among any others. `groups`: how many parts of a row have a scale of their own,
    where activations have 7 bits. `fine`: the rounding error is multiplied, too, for about twice the precision.
    """

    def __init__(self, packed: Int8Weight, *, fine: bool = False, groups: int = 1, consume: bool = False) -> None:
        """Keeps its own copy of the weights, whose rows cannot be read. `consume` leaves `packed` without them as soon
        as they are copied, so that there are never three copies.
        """
        self.shape = packed.shape
        self._fine = fine
        parts = groups if activation_qmax() < _INT8_MAX else 1
        copies = [_quantised(part.contiguous(), packed.scales) for part in packed.weight.chunk(parts, 1)]
        if consume:
            packed.weight = torch.empty(0)
        self._weights = [_prepacked(copy) for copy in copies]

    def __call__(self, rows: Tensor, plus: Tensor | None = None) -> Tensor:
        """(M, I) float32 -> (M, O) float32, with `plus` added."""
        parts = rows.chunk(len(self._weights), 1) if len(self._weights) > 1 else (rows,)
        for part, weight in zip(parts, self._weights, strict=True):
            product, scale = self._product(part, weight)
            plus = product.mul_(scale) if plus is None else torch.addcmul(plus, product, scale)
        assert plus is not None
        return plus

    def _product(self, rows: Tensor, weight: torch.ScriptObject) -> tuple[Tensor, Tensor]:
        """Multiplies one group of columns: returns the integer product (M, O) and its per-row scales (M, 1)."""
        qmax = activation_qmax()
        max_abs = rows.abs().amax(1, keepdim=True).clamp_(min=_MIN_ABS)
        if not self._fine:
            return _integer_product(rows / max_abs, 1 / qmax, qmax, weight), max_abs
        scale = max_abs.div_(qmax)
        scaled = rows / scale
        high = scaled.round()
        high_and_low = torch.cat([high, scaled.sub_(high).mul_(2 * qmax)])
        product, low = _integer_product(high_and_low, 1.0, qmax, weight).chunk(2)
        return product.add_(low, alpha=0.5 / qmax), scale


def _integer_product(rows: Tensor, step: float, qmax: int, weight: torch.ScriptObject) -> Tensor:
    """The integer product of rows, quantised with the scale `step` and clipped to `qmax`."""
    product: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(rows, step, qmax + 1, weight)
    return product


@cache
def activation_qmax() -> int:
    """The largest quantised activation: of 8 bits with VNNI, otherwise of 7, because fbgemm then adds pairs of products
    in 16 bits.
    """
    width, qmax = 64, int(_INT8_MAX)
    weight = _prepacked(_quantised(torch.full((width, width), qmax, dtype=torch.int8), torch.ones(width)))
    expected = float(width * qmax * qmax)
    products = [_integer_product(torch.full((rows, width), _INT8_MAX), 1.0, qmax, weight) for rows in (1, width)]
    return qmax if all(bool((product == expected).all()) for product in products) else qmax // 2


_KERNEL_ROWS = 16
"""With AVX-512, unpacking to bfloat16 is faster from 20 rows on, and to float32 never."""
_BUFFER_WEIGHTS = 1 << 21
"""Unpack this many weights at a time: 4 MB, still in a processor's cache when used. With all of a matrix at a time, 256
rows took 4 % less time, 64 rows 9 % more.
"""


def dequant_buffer() -> Tensor:
    """A scratch buffer to dequantise all int8 weights of a model in, in the dtype of the processor's fast matmul."""
    return torch.empty(_BUFFER_WEIGHTS, dtype=torch.bfloat16 if devices.cpu_has_fast_bf16() else torch.float32)


class Int8WeightOnlyLinear:
    """Weight-only int8 linear layer, for processors without `Int8DynamicLinear`: activations keep their dtype.

    Many rows are multiplied by weights that are unpacked piece by piece, where that is faster than torch's kernel for
    packed weights, in bfloat16. A row's products are the same alone or among up to
    `_KERNEL_ROWS` rows: the kernel adds in the same order.
    """

    def __init__(self, packed: Int8Weight, buffer: Tensor) -> None:
        self.packed = packed
        self.shape = packed.shape
        self._dequant_buffer = buffer
        self._max_kernel_rows = _KERNEL_ROWS if buffer.dtype == torch.bfloat16 else sys.maxsize

    def __call__(self, rows: Tensor, plus: Tensor | None = None) -> Tensor:
        """(M, I) float32 -> (M, O), with `plus` added."""
        product = self._product(rows)
        return product if plus is None else plus + product

    def _product(self, rows: Tensor) -> Tensor:
        weight, scales = self.packed.weight, self.packed.scales
        if len(rows) <= self._max_kernel_rows:
            return torch._weight_int8pack_mm(rows.bfloat16(), weight, scales)
        product = rows.new_empty(len(rows), self.shape[0], dtype=self._dequant_buffer.dtype)
        rows = rows.to(product.dtype)
        rows_at_a_time = max(1, len(self._dequant_buffer) // self.shape[1])
        for first in range(0, self.shape[0], rows_at_a_time):
            chunk = weight[first : first + rows_at_a_time]
            dequantised = self._dequant_buffer[: chunk.numel()].view(chunk.shape).copy_(chunk)
            product[:, first : first + rows_at_a_time] = functional.linear(rows, dequantised)
        return product.mul_(scales)

    def rows(self, numbers: Tensor) -> Tensor:
        """(n,) -> these rows of the matrix, float32 (n, I)."""
        return self.packed.rows(numbers)


class StackedLinear:
    """Stacked linear layers, each in its own format."""

    def __init__(self, parts: Sequence[DenseLinear | PackedLinear]) -> None:
        self.parts = parts
        self.shape = (sum(part.shape[0] for part in parts), parts[0].shape[1])

    def __call__(self, rows: Tensor, plus: Tensor | None = None) -> Tensor:
        """(M, I) -> (M, O), with `plus` added, in the wider of both dtypes."""
        product = torch.cat([part(rows) for part in self.parts], 1)
        return product if plus is None else plus + product


Linear = DenseLinear | Int8DynamicLinear | Int8WeightOnlyLinear | PackedLinear | StackedLinear


@cache
def has_dynamic_int8() -> bool:
    """Whether this CPU and this torch support `Int8DynamicLinear`."""
    able = torch.cpu.get_capabilities()
    return "fbgemm" in torch.backends.quantized.supported_engines and able.get("avx2") is True


def _quantised(weight: Tensor, scales: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch 2.13 announces another package for quantised tensors
        zeros = torch.zeros(len(scales), dtype=torch.long)
        return torch._make_per_channel_quantized_tensor(weight, scales.double(), zeros, 0)


def _prepacked(quantised: Tensor) -> torch.ScriptObject:
    engine = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    try:
        return torch.ops.quantized.linear_prepack(quantised, None)  # type: ignore[no-any-return]
    finally:
        torch.backends.quantized.engine = engine


def quantise_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """(n, I) weights -> int8 (n, I) and the bfloat16 scale (n,) of each row, the exact divisor."""
    rows = rows.float()
    scales = (rows.abs().amax(1) / _INT8_MAX).clamp(min=1e-12).bfloat16()
    return (rows / scales.float()[:, None]).round_().clamp_(-_INT8_MAX, _INT8_MAX).to(torch.int8), scales
