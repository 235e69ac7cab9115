"""Weights that stay quantised in memory, and matrix products in plain torch that dequantise a part at a time.

Affine groups of 32, weight = scale * code + bias, as most types of GGUF have them. Shapes: O rows of I columns, of as
many matrices as the leading dimensions count.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from inference.models.gguf.affine import GROUP_SIZE

_BLOCK_WEIGHTS = {"cpu": 1 << 20}
_FAR_BLOCK_WEIGHTS = 1 << 24
"""Pack or unpack about this many weights at a time: 4 MB in float32 on a CPU. On a GPU each block takes more calls."""


@dataclass(frozen=True)
class PackedWeight:
    """Matrices whose codes are one stream of bits a row, the lowest first."""

    words: Tensor  # int32 (..., O, I * bits / 32)
    scales: Tensor  # float16 (..., O, I / 32)
    biases: Tensor  # float16 (..., O, I / 32)
    bits: int
    """4, 5, 6 or 8."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., O, I)."""
        return *self.scales.shape[:-1], self.scales.shape[-1] * GROUP_SIZE

    @property
    def nbytes(self) -> int:
        return self.words.nbytes + self.scales.nbytes + self.biases.nbytes

    def __getitem__(self, index: int | slice | Tensor) -> Self:
        """A part of the first dimension, a view unless `index` is a tensor."""
        return self.with_rows(lambda part: part[index])

    def with_rows(self, change: Callable[[Tensor], Tensor]) -> Self:
        """A copy with `change` applied to the rows of words, scales and biases."""
        return type(self)(change(self.words), change(self.scales), change(self.biases), self.bits)

    @classmethod
    def of_codes(cls, codes: Tensor, scales: Tensor, biases: Tensor, bits: int) -> Self:
        """Packs codes, uint8 (n, I). Scales and biases (n, I / 32), rounded to float16."""
        eights = codes.view(-1, 8)
        octets = codes.new_zeros(len(eights), bits)
        for position in range(8):
            byte, shift = divmod(position * bits, 8)
            octets[:, byte] |= eights[:, position] << shift
            if shift + bits > 8:
                octets[:, byte + 1] |= eights[:, position] >> (8 - shift)
        return cls(octets.view(len(codes), -1).view(torch.int32), scales.half(), biases.half(), bits)

    def codes(self) -> Tensor:
        """uint8 (..., O, I)."""
        octets = self.words.view(torch.uint8)
        if self.bits == 8:
            return octets
        eights = octets.view(*octets.shape[:-1], -1, self.bits)  # bytes, which hold eight codes
        codes = octets.new_empty((*eights.shape[:-1], 8))
        for position in range(8):
            byte, shift = divmod(position * self.bits, 8)
            code = eights[..., byte] >> shift
            if shift + self.bits > 8:
                code |= eights[..., byte + 1] << (8 - shift)
            codes[..., position] = code & ((1 << self.bits) - 1)
        return codes.flatten(-2)

    def blocks(self, dtype: torch.dtype) -> Iterator[tuple[slice, Tensor]]:
        """Dequantises all rows, some at a time, in float32: yields their slice and (n, I)."""
        flat = self.with_rows(lambda part: part.flatten(0, -2))
        step = rows_at_a_time(self.words.device, self.shape[-1])
        for first in range(0, flat.shape[0], step):
            rows = slice(first, min(first + step, flat.shape[0]))
            part = flat[rows]
            groups = part.codes().view(*part.scales.shape, GROUP_SIZE).float()
            groups *= part.scales[..., None]
            groups += part.biases[..., None]
            yield rows, groups.flatten(-2).to(dtype)

    def weights(self, dtype: torch.dtype) -> Tensor:
        """All weights (..., O, I), dequantised in float32."""
        weights = torch.empty(self.shape, dtype=dtype, device=self.words.device)
        rows = weights.view(-1, self.shape[-1])
        for block_rows, block in self.blocks(dtype):
            rows[block_rows] = block
        return weights


def rows_at_a_time(device: torch.device, columns: int) -> int:
    return max(1, _BLOCK_WEIGHTS.get(device.type, _FAR_BLOCK_WEIGHTS) // columns)


def quantise(rows: Tensor, bits: int) -> PackedWeight:
    """Quantises rows (n, I) to `bits`, between the least and the greatest weight of each group."""
    groups, levels = rows.float().view(len(rows), -1, GROUP_SIZE), (1 << bits) - 1
    biases = groups.amin(-1).half()
    above = groups - biases[..., None]
    scales = (above.amax(-1) / levels).half()
    codes = (above / scales.float().where(scales > 0, 1)[..., None]).round_().clamp_(0, levels).byte()
    return PackedWeight.of_codes(codes.view(rows.shape), scales, biases, bits)


def needed_bytes(shape: Sequence[int], bits: int, plain_bits: int = 16) -> float:
    """The bytes of a tensor in codes of `bits` with their scales and biases; with 0 bits, in its plain dtype."""
    return prod(shape) * (bits + 32 / GROUP_SIZE if bits else plain_bits) / 8


def weight_bytes_by_name(module: nn.Module) -> dict[str, int]:
    """The bytes of each parameter and each packed weight below a module, by name."""
    sizes = {name: parameter.nbytes for name, parameter in module.named_parameters()}
    for path, owner in module.named_modules():
        packed = ((name, weight) for name, weight in vars(owner).items() if isinstance(weight, PackedWeight))
        sizes |= {f"{path}.{name}": weight.nbytes for name, weight in packed}
    return sizes


def stack_rows(weights: Sequence[PackedWeight]) -> PackedWeight:
    """Stacks matrices of equal columns and bits into one."""
    if len(weights) == 1:
        return weights[0]
    words, scales, biases = zip(*((weight.words, weight.scales, weight.biases) for weight in weights), strict=True)
    return PackedWeight(torch.cat(words), torch.cat(scales), torch.cat(biases), weights[0].bits)


def packed_product(
    rows: Tensor, weight: PackedWeight, dtype: torch.dtype | None = None, plus: Tensor | None = None
) -> Tensor:
    """(M, I) -> (M, O), computed in a dtype, the rows' by default; with `plus` (M, O) or (O,) added."""
    rows = rows.to(dtype or rows.dtype)
    product = rows.new_empty(len(rows), weight.shape[0])
    for block_rows, block in weight.blocks(rows.dtype):
        product[:, block_rows] = functional.linear(rows, block)
    return product if plus is None else plus + product


def grouped_experts(
    hidden: Tensor,
    chosen: Tensor,
    router_weights: Tensor,
    gate_up: PackedWeight | Tensor,
    down: PackedWeight | Tensor,
    activation: Callable[[Tensor], Tensor],
) -> Tensor:
    """The experts' weighted sum (N, d) for rows (N, d), each with its k experts and their weights, (N, k).

    `gate_up` (E, 2F, d): the gates' rows, then the others, as in transformers' experts. `down` (E, d, F).
    """
    per_row = chosen.shape[1]
    experts, order = chosen.flatten().sort(stable=True)
    ends = torch.searchsorted(experts, torch.arange(gate_up.shape[0], device=experts.device), right=True)
    is_quick = hidden.device.type == "cuda" and hidden.dtype == torch.bfloat16
    product = product_of_all_experts if is_quick and isinstance(gate_up, PackedWeight) else product_by_expert
    gate, up = product(hidden[order // per_row], gate_up, ends).chunk(2, -1)
    sorted_output = product(activation(gate) * up, down, ends)
    output = torch.empty_like(sorted_output)
    output[order] = sorted_output
    return (output.view(-1, per_row, hidden.shape[1]) * router_weights[..., None]).sum(1).to(hidden.dtype)


Experts = Callable[[Tensor, Tensor, Tensor, Any, Any, Callable[[Tensor], Tensor]], Tensor]
"""`grouped_experts`, or a faster one."""


def set_experts_product(experts: Any, product: Experts) -> None:
    """Makes a layer's experts, in transformers' module, multiply by `product`."""
    experts.forward = lambda hidden, chosen, router_weights: product(
        hidden, chosen, router_weights, experts.gate_up_proj, experts.down_proj, experts.act_fn
    )


def product_of_all_experts(rows: Tensor, matrices: Any, ends: Tensor) -> Tensor:
    """As `product_by_expert`, but dequantises all matrices and does not read `ends`, so a CUDA graph can capture it."""
    return functional.grouped_mm(rows, matrices.weights(rows.dtype).transpose(1, 2), offs=ends.int())


def product_by_expert(rows: Tensor, matrices: PackedWeight | Tensor, ends: Tensor) -> Tensor:
    """(M, I) -> (M, O): the rows before the first of the `ends` (E,) times the first matrix, and so on.

    Unpacks one matrix at a time, and none without rows.
    """
    product = rows.new_empty(len(rows), matrices.shape[1])
    begin = 0
    for expert, end in enumerate(ends.tolist()):
        if end > begin:
            product[begin:end] = _product(rows[begin:end], matrices[expert])
        begin = end
    return product


def _product(rows: Tensor, weight: PackedWeight | Tensor) -> Tensor:
    if isinstance(weight, PackedWeight):
        return packed_product(rows, weight)
    return functional.linear(rows, weight.to(rows.dtype))


class PackedLinear(nn.Module):
    """A layer of packed weights (O, I), and its products in one dtype."""

    def __init__(self, weight: PackedWeight, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.weight = weight
        self.shape = self.out_features, self.in_features = weight.shape
        self._dtype = dtype
        self.product = packed_product
        """Replaced where faster kernels are available."""

    def forward(self, rows: Tensor, plus: Tensor | None = None) -> Tensor:
        """(..., I) -> (..., O), with `plus` (..., O) or (O,) added."""
        plus = plus if plus is None or plus.ndim == 1 else plus.flatten(0, -2)
        return self.product(rows.flatten(0, -2), self.weight, self._dtype, plus).view(*rows.shape[:-1], -1)

    def rows(self, numbers: Tensor) -> Tensor:
        """(n,) -> these rows of the matrix, float32 (n, I)."""
        return self.weight[numbers].weights(torch.float32)
