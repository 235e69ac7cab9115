"""Products in Triton with bfloat16 or packed weights: of the experts of a mixture, and of one packed matrix.

A product of few rows takes as long as reading its weights, so each is read once for a block of rows, and its codes are
unpacked in registers by shifts. Shapes: N rows, each with k of E experts, P = N * k pairs of a row and an expert; d and
F the widths outside and inside an expert; O x I a matrix. Sums are float32, in the same order each time: no atomics.

On CUDA torch brings Triton. With TRITON_INTERPRET=1 before the import the kernels run on a processor, slowly.
"""

import copy
import os
import shutil
import sysconfig
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from inference.models.family import ModelError
from inference.models.packed import PackedWeight

_COLUMNS = 64
"""Columns of a product that one program computes."""
_DEPTH, _PACKED_DEPTH = 64, 128
"""Columns of the weights that it reads at a time: 128 bytes in bfloat16, 64 in 4 bits."""
_STAGES, _WARPS = 4, 4
_PLAN_PAIRS = 1024
_DENSE_COLUMNS, _DENSE_ROWS = 32, 64
_PROGRAMS = 256
"""A product of fewer programs does not keep a card's memory busy: several then share a matrix's columns."""
_PLAIN_BITS = 16


@triton.jit  # type: ignore[untyped-decorator]
def _weight_tile(weight, scales, biases, row, is_row, first, I: tl.constexpr, BITS: tl.constexpr, K: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: E741
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


@triton.jit  # type: ignore[untyped-decorator]
def _plan_kernel(chosen, pairs, experts, blocks, P, E, M: tl.constexpr, BINS: tl.constexpr, STEP: tl.constexpr):  # type: ignore[no-untyped-def]
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


@triton.jit  # type: ignore[untyped-decorator]
def _experts_kernel(  # type: ignore[no-untyped-def]
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
    O: tl.constexpr,  # noqa: E741
    I: tl.constexpr,  # noqa: E741
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


@triton.jit  # type: ignore[untyped-decorator]
def _dense_kernel(  # type: ignore[no-untyped-def]
    rows,
    words,
    scales,
    biases,
    output,
    count,
    O: tl.constexpr,  # noqa: E741
    I: tl.constexpr,  # noqa: E741
    SPLIT: tl.constexpr,
    BITS: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
):
    """M rows times N rows of the matrix, every SPLIT-th K columns of it: a part of the sum, (SPLIT, count, O)."""
    column = tl.program_id(0) * N + tl.arange(0, N)
    part_number = tl.program_id(1)
    row = tl.program_id(2) * M + tl.arange(0, M)
    is_row, is_column = row < count, column < O
    total = tl.zeros((M, N), tl.float32)
    for first in range(part_number * K, I, SPLIT * K):
        depth = first + tl.arange(0, K)
        part = tl.load(rows + row[:, None] * I + depth[None, :], mask=is_row[:, None] & (depth < I)[None, :], other=0.0)
        tile = _weight_tile(words, scales, biases, column.to(tl.int64), is_column, first, I, BITS, K).to(part.dtype)
        total = tl.dot(part, tl.trans(tile), total, input_precision="ieee")
    at = (part_number * count + row).to(tl.int64)[:, None] * O + column[None, :]
    tl.store(output + at, total.to(output.dtype.element_ty), mask=is_row[:, None] & is_column[None, :])


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
    _plan_kernel[(experts,)](chosen.contiguous(), sorted_pairs, owners, count, pairs, experts, **sizes)
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
    inner = _product(hidden.contiguous(), gate_up, None, plan, pairs, chosen.shape[1])
    output = _product(inner, down, router_weights.contiguous(), plan, pairs, 1)
    return output.view(len(hidden), -1, hidden.shape[1]).sum(1)


def _product(
    rows: Tensor,
    weight: Tensor | PackedWeight,
    router_weights: Tensor | None,
    plan: tuple[Tensor, Tensor, Tensor, int],
    pairs: int,
    share: int,
) -> Tensor:
    """(P, O): without router weights gated."""
    sorted_pairs, owners, count, block = plan
    words, scales, biases, bits = _parts(weight)
    wide = weight.shape[1] if router_weights is not None else weight.shape[1] // 2
    output = rows.new_empty(pairs, wide)
    _experts_kernel[(len(owners), triton.cdiv(wide, _COLUMNS))](
        rows,
        words,
        scales,
        biases,
        rows if router_weights is None else router_weights,
        output,
        sorted_pairs,
        owners,
        count,
        pairs,
        SHARE=share,
        O=wide,
        I=weight.shape[2],
        BITS=bits,
        GATED=router_weights is None,
        M=block,
        N=_COLUMNS,
        K=_DEPTH if bits == _PLAIN_BITS else _PACKED_DEPTH,
        num_warps=_WARPS,
        num_stages=_STAGES,
    )
    return output


def packed_product(rows: Tensor, weight: PackedWeight) -> Tensor:
    """(N, I) -> (N, O), in the rows' dtype."""
    count, (high, wide) = len(rows), weight.shape
    block = min(_DENSE_ROWS, max(16, triton.next_power_of_2(count)))
    grid = triton.cdiv(high, _DENSE_COLUMNS), triton.cdiv(count, block)
    split = max(1, min(_PROGRAMS // (grid[0] * grid[1]), triton.cdiv(wide, 2 * _PACKED_DEPTH)))
    output = rows.new_empty((split, count, high), dtype=torch.float32 if split > 1 else rows.dtype)
    words, scales, biases, bits = _parts(weight)
    _dense_kernel[(grid[0], split, grid[1])](
        rows.contiguous(),
        words,
        scales,
        biases,
        output,
        count,
        O=high,
        I=wide,
        SPLIT=split,
        BITS=bits,
        M=block,
        N=_DENSE_COLUMNS,
        K=_PACKED_DEPTH,
        num_warps=_WARPS,
        num_stages=_STAGES,
    )
    return output.sum(0).to(rows.dtype) if split > 1 else output[0]


def _parts(weight: Tensor | PackedWeight) -> tuple[Tensor, Tensor, Tensor, int]:
    if isinstance(weight, Tensor):
        return weight, weight, weight, _PLAIN_BITS
    return weight.words, weight.scales, weight.biases, weight.bits
