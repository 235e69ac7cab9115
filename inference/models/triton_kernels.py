"""Products in Triton with bfloat16 or packed weights: of the experts of a mixture, and of one packed matrix.

A product of few rows takes as long as reading its weights, so each is read once for a block of rows, and its codes are
unpacked in registers by shifts. Shapes: N rows, each with k of E experts, P = N * k pairs of a row and an expert; d and
F the widths outside and inside an expert; O x I a matrix. Sums are float32, in the same order each time: no atomics.

On CUDA torch brings Triton. With TRITON_INTERPRET=1 before the import the kernels run on a processor, slowly.
"""

import os
import shutil
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from inference.models import packed
from inference.models.family import ModelError
from inference.models.packed import PackedLinear, PackedWeight, set_experts_product

BLOCK_COLUMNS = 64
"""Columns of a product that one program computes."""
BLOCK_DEPTH = 64
"""Columns of the weights that it reads at a time: with more, unpacked codes leave the registers."""
STAGES, WARPS = 4, 4
_PLAN_PAIRS = 1024
DENSE_COLUMNS, DENSE_DEPTH, DENSE_BLOCKS = 32, 128, (16, 64)
_PROGRAMS = 256
"""A product of fewer programs does not keep a card's memory busy: several then share a matrix's columns."""
_PLAIN_BITS = 16
_CHECK_ROWS = (9, 40, 259, 515)
"""For each size of block, and each way to share a matrix, that Triton compiles: no request waits for that."""
_TOLERANCE = 0.01
"""The most that a row of a product may differ from float32's, as a share of its length. In bfloat16 good ones differ by
.0042, and by .0066 where parts of a sum are rounded, too (Qwen2.5-Coder 0.5B and 1.5B, real and random rows). Through
all layers that becomes .2 in the 0.5B's logits, and .06 among good products.
"""
_ACTIVATION = "gelu_pytorch_tanh"


@triton.jit
def _weight_tile(weight, scales, biases, row, is_row, first, I: tl.constexpr, BITS: tl.constexpr, K: tl.constexpr):
    """(rows, K) weights from column `first` on of the matrix rows at `row`. Zeros behind the end.

    UNIT codes at a time: these begin in one word, and end in the same or, of 5 and 6 bits, in the next.
    """
    if BITS == 16:
        column = first + tl.arange(0, K)
        inside = is_row[:, None] & (column < I)[None, :]
        tile = tl.load(weight + row[:, None] * I + column[None, :], mask=inside, other=0.0)
    else:
        UNIT: tl.constexpr = 4 if BITS == 8 else 8
        unit = first // UNIT + tl.arange(0, K // UNIT)
        inside = is_row[:, None] & (unit < I // UNIT)[None, :]
        word = weight + row[:, None] * (I * BITS // 32) + (unit * (UNIT * BITS) // 32)[None, :]
        codes = tl.load(word, mask=inside, other=0).to(tl.uint32, bitcast=True)
        if BITS == 5 or BITS == 6:
            above = tl.load(word + 1, mask=inside, other=0).to(tl.uint32, bitcast=True).to(tl.uint64)
            codes = ((above << 32) | codes.to(tl.uint64)) >> (unit * (UNIT * BITS) % 32).to(tl.uint64)[None, :]
        shifts = (BITS * tl.arange(0, UNIT)).to(codes.dtype)
        codes = ((codes[:, :, None] >> shifts[None, None, :]) & ((1 << BITS) - 1)).to(tl.int32).to(tl.float32)
        group = row[:, None] * (I // 32) + (unit * UNIT // 32)[None, :]
        scale = tl.load(scales + group, mask=inside, other=0.0).to(tl.float32)
        bias = tl.load(biases + group, mask=inside, other=0.0).to(tl.float32)
        tile = tl.reshape(codes * scale[:, :, None] + bias[:, :, None], (row.shape[0], K))
    return tile


@triton.jit(do_not_specialize=["P", "E"])
def sort_kernel(chosen, pairs, experts, blocks, P, E, M: tl.constexpr, BINS: tl.constexpr, STEP: tl.constexpr):
    """Program e writes the pairs of expert e, padded with P to blocks of M, and which expert these blocks are of."""
    expert = tl.program_id(0)
    counts = tl.zeros((BINS,), tl.int32)
    for first in range(0, P, STEP):
        at = first + tl.arange(0, STEP)
        counts += tl.histogram(tl.load(chosen + at, mask=at < P, other=E).to(tl.int32), BINS)
    number = tl.arange(0, BINS)
    own_blocks = tl.where(number < E, (counts + M - 1) // M, 0)
    begin = tl.sum(tl.where(number < expert, own_blocks, 0))
    count = tl.sum(tl.where(number == expert, counts, 0))
    end = begin + tl.sum(tl.where(number == expert, own_blocks, 0))
    if expert == 0:
        tl.store(blocks, tl.sum(own_blocks))
    done = begin * M
    for first in range(0, P, STEP):
        at = first + tl.arange(0, STEP)
        is_own = tl.load(chosen + at, mask=at < P, other=E) == expert
        tl.store(pairs + done + tl.cumsum(is_own.to(tl.int32), 0) - 1, at, mask=is_own)
        done += tl.sum(is_own.to(tl.int32))
    padding = begin * M + count + tl.arange(0, M)
    tl.store(pairs + padding, P, mask=padding < end * M)
    for block in range(begin, end):
        tl.store(experts + block, expert)


@triton.jit(do_not_specialize=["P"])
def experts_kernel(
    rows,
    weight,
    scales,
    biases,
    router_weights,
    output,
    pairs,
    experts,
    blocks,
    P,
    SHARE: tl.constexpr,
    O: tl.constexpr,
    I: tl.constexpr,
    BITS: tl.constexpr,
    GATED: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    """A block of pairs times N rows of its expert's matrix; the row of pair p is p // SHARE of `rows`, its result p of
    `output` (P, O). GATED: the matrix has 2 * O rows, and gelu(first half) * second half is the result.
    """
    block = tl.program_id(0)
    if block < tl.load(blocks):
        pair = tl.load(pairs + block * M + tl.arange(0, M))
        is_pair = pair < P
        column = tl.program_id(1) * N + tl.arange(0, N)
        is_column = column < O
        row = tl.load(experts + block).to(tl.int64) * (O * (2 if GATED else 1)) + column
        total = tl.zeros((M, N), tl.float32)
        above = tl.zeros((M, N), tl.float32)
        for first in range(0, I, K):
            depth = first + tl.arange(0, K)
            at = (pair // SHARE).to(tl.int64)[:, None] * I + depth[None, :]
            part = tl.load(rows + at, mask=is_pair[:, None] & (depth < I)[None, :], other=0.0)
            tile = _weight_tile(weight, scales, biases, row, is_column, first, I, BITS, K).to(part.dtype)
            total = tl.dot(part, tl.trans(tile), total, input_precision="ieee")
            if GATED:
                tile = _weight_tile(weight, scales, biases, row + O, is_column, first, I, BITS, K).to(part.dtype)
                above = tl.dot(part, tl.trans(tile), above, input_precision="ieee")
        if GATED:  # gelu's approximation by tanh: x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x^3))
            total = total * tl.sigmoid(1.5957691216057308 * (total + 0.044715 * total * total * total)) * above
        else:
            total *= tl.load(router_weights + pair, mask=is_pair, other=0.0).to(tl.float32)[:, None]
        at = pair.to(tl.int64)[:, None] * O + column[None, :]
        tl.store(output + at, total.to(output.dtype.element_ty), mask=is_pair[:, None] & is_column[None, :])


@triton.jit(do_not_specialize=["count", "split"])
def dense_kernel(
    rows,
    words,
    scales,
    biases,
    output,
    count,
    split,
    O: tl.constexpr,
    I: tl.constexpr,
    BITS: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    """M rows times N rows of the matrix, every `split`-th K columns of it: a part of the sum, (split, count, O)."""
    column = tl.program_id(0) * N + tl.arange(0, N)
    part_number = tl.program_id(1)
    row = tl.program_id(2) * M + tl.arange(0, M)
    is_row, is_column = row < count, column < O
    total = tl.zeros((M, N), tl.float32)
    for first in range(part_number * K, I, split * K):
        depth = first + tl.arange(0, K)
        part = tl.load(rows + row[:, None] * I + depth[None, :], mask=is_row[:, None] & (depth < I)[None, :], other=0.0)
        tile = _weight_tile(words, scales, biases, column.to(tl.int64), is_column, first, I, BITS, K).to(part.dtype)
        total = tl.dot(part, tl.trans(tile), total, input_precision="ieee")
    at = (part_number * count + row).to(tl.int64)[:, None] * O + column[None, :]
    tl.store(output + at, total.to(output.dtype.element_ty), mask=is_row[:, None] & is_column[None, :])


def use_triton_kernels(layers: Iterable[Any]) -> None:
    """Lets layers multiply by these kernels: those of packed weights, and the experts of a mixture.

    Raises ModelError if kernels cannot be built here, if experts have another activation, or if a product is wrong. One
    layer of each shape is tried, and not the model: through its layers rounding grows beyond any limit.
    """
    require_toolchain()
    layers = list(layers)
    linears = [layer for layer in layers if isinstance(layer, PackedLinear)]
    mixtures = [layer for layer in layers if hasattr(layer, "gate_up_proj")]
    for weight in {(each.shape, each.weight.bits): each.weight for each in linears}.values():
        for rows in _random_rows(weight.shape[1], weight.words.device):
            _check(packed_product, packed.packed_product, rows, weight)
    for experts in {(_parts(each.gate_up_proj)[3], _parts(each.down_proj)[3]): each for each in mixtures}.values():
        if (activation := experts.config.hidden_activation) != _ACTIVATION:
            raise ModelError(f"its activation is {activation}, not {_ACTIVATION}")
        weights = experts.gate_up_proj, experts.down_proj
        for rows in _random_rows(weights[0].shape[2], _parts(weights[0])[0].device):
            chosen = rows[:, : experts.num_experts].float().topk(experts.config.top_k_experts).indices
            router_weights = torch.full(chosen.shape, 1 / chosen.shape[1], dtype=rows.dtype, device=rows.device)
            _check(grouped_experts, packed.grouped_experts, rows, chosen, router_weights, *weights, experts.act_fn)
    for linear in linears:
        linear.product = packed_product
    for experts in mixtures:
        set_experts_product(experts, grouped_experts)


def _random_rows(wide: int, device: torch.device) -> Iterator[Tensor]:
    generator = torch.Generator(device).manual_seed(0)
    return (torch.randn(n, wide, generator=generator, device=device).bfloat16() for n in _CHECK_ROWS)


def _check(kernel: Callable[..., Tensor], fall_back: Callable[..., Tensor], rows: Tensor, *others: Any) -> None:
    """Raises ModelError if a row of the kernel's product is too far from the one in float32."""
    exact = fall_back(rows.float(), *others)
    products = kernel(rows, *others), fall_back(rows, *others)
    error, usual = (float(((each.float() - exact).norm(dim=1) / exact.norm(dim=1)).max()) for each in products)
    if not error <= _TOLERANCE:
        raise ModelError(f"in products of {len(rows)} rows {error:.2%} of one is wrong; in plain torch {usual:.2%}")


def require_toolchain() -> None:
    """Raises ModelError if Triton cannot build here what starts its kernels."""
    if triton.knobs.runtime.interpret:
        return
    if not any(map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang"))):
        raise ModelError("Triton needs a C compiler, which is missing; install gcc")
    if not (headers := Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise ModelError(f"Triton needs Python's headers, but {headers} is missing; on Debian install python3-dev")


def expert_blocks(chosen: Tensor, experts: int) -> tuple[Tensor, Tensor, Tensor, int]:
    """Sorts the pairs of (N, k) chosen experts by expert, on their device: nothing waits, and no shape depends on them.

    Returns the pairs, each expert's padded with P to blocks; each block's expert; how many blocks there are (1,), and
    how many rows a block has. There is room for the most blocks that P pairs can fill.
    """
    pairs = chosen.numel()
    block = min(64, max(16, triton.next_power_of_2(2 * pairs // experts)))  # most experts then fill one
    most = (pairs + min(pairs, experts) * (block - 1)) // block
    sorted_pairs, owners, count = (chosen.new_empty(size, dtype=torch.int32) for size in (most * block, most, 1))
    sizes = {"M": block, "BINS": max(64, triton.next_power_of_2(experts + 1)), "STEP": _PLAN_PAIRS}
    sort_kernel[(experts,)](chosen.contiguous(), sorted_pairs, owners, count, pairs, experts, **sizes)
    return sorted_pairs, owners, count, block


def grouped_experts(
    hidden: Tensor,
    chosen: Tensor,
    router_weights: Tensor,
    gate_up: Tensor | PackedWeight,
    down: Tensor | PackedWeight,
    _activation: Callable[[Tensor], Tensor],
) -> Tensor:
    """See `packed.grouped_experts`; of plain weights, too. The activation is gelu's approximation by tanh."""
    pairs = chosen.numel()
    plan = expert_blocks(chosen, gate_up.shape[0])
    inner = _product(_multipliable(hidden), gate_up, None, plan, pairs, chosen.shape[1])
    output = _product(inner, down, router_weights.contiguous(), plan, pairs, 1)
    return output.view(len(hidden), -1, hidden.shape[1]).sum(1).to(hidden.dtype)


def _product(
    rows: Tensor,
    weight: Tensor | PackedWeight,
    router_weights: Tensor | None,
    plan: tuple[Tensor, Tensor, Tensor, int],
    pairs: int,
    share: int,
) -> Tensor:
    """(P, O): without router weights gated."""
    *blocks, block = plan
    *parts, bits = _parts(weight)
    gated = router_weights is None
    wide = weight.shape[1] // (1 + gated)
    output = rows.new_empty(pairs, wide)
    sizes = {"SHARE": share, "O": wide, "I": weight.shape[2], "BITS": bits, "GATED": gated}
    sizes |= {"M": block, "N": BLOCK_COLUMNS, "K": BLOCK_DEPTH, "num_warps": WARPS, "num_stages": STAGES}
    grid = len(plan[1]), triton.cdiv(wide, BLOCK_COLUMNS)
    experts_kernel[grid](rows, *parts, rows if gated else router_weights, output, *blocks, pairs, **sizes)
    return output


def packed_product(rows: Tensor, weight: PackedWeight) -> Tensor:
    """(N, I) -> (N, O), in the rows' dtype."""
    count, (high, wide) = len(rows), weight.shape
    block = DENSE_BLOCKS[count > DENSE_BLOCKS[0]]
    grid = triton.cdiv(high, DENSE_COLUMNS), triton.cdiv(count, block)
    split = max(1, min(_PROGRAMS // (grid[0] * grid[1]), triton.cdiv(wide, 2 * DENSE_DEPTH)))
    wanted, rows = rows.dtype, _multipliable(rows)
    output = rows.new_empty((split, count, high), dtype=torch.float32 if split > 1 else rows.dtype)
    *parts, bits = _parts(weight)
    sizes = {"O": high, "I": wide, "BITS": bits, "M": block, "N": DENSE_COLUMNS, "K": DENSE_DEPTH}
    sizes |= {"num_warps": WARPS, "num_stages": STAGES}
    dense_kernel[(grid[0], split, grid[1])](rows, *parts, output, count, split, **sizes)
    return (output.sum(0) if split > 1 else output[0]).to(wanted)


def _multipliable(rows: Tensor) -> Tensor:
    """In order in memory; in float32 for the interpreter, which multiplies no bfloat16."""
    return (rows.float() if triton.knobs.runtime.interpret else rows).contiguous()


def _parts(weight: Tensor | PackedWeight) -> tuple[Tensor, Tensor, Tensor, int]:
    if isinstance(weight, Tensor):
        return weight, weight, weight, _PLAIN_BITS
    return weight.words, weight.scales, weight.biases, weight.bits
