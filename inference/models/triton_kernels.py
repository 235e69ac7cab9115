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
from torch.nn import functional

from inference.models import packed
from inference.models.family import ModelError
from inference.models.packed import PackedLinear, PackedWeight, set_experts_product

BLOCK_COLUMNS, BLOCK_DEPTH = 128, 64
"""Rows of an expert's matrices that one program multiplies by, gates included, and how many of their columns it reads
at a time.
"""
DENSE_COLUMNS, DENSE_DEPTH, DENSE_BLOCKS = 64, 128, (16, 64)
WARPS = 4
_PLAN_PAIRS = 1024
ATTENTION_STEP, ATTENTION_PARTS = 64, 32
"""Rows of keys that a program of attention reads at a time, and how many programs share those of a head."""
_PROGRAMS, _PROGRAMS_OF_MANY = 512, 256
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
def _factors(numbers, row, is_row, first, I: tl.constexpr, K: tl.constexpr, UNIT: tl.constexpr):
    """(rows, K / UNIT): the scale or bias of each unit of codes. Read once for a group, or reading takes longest."""
    group = first // 32 + tl.arange(0, K // 32)
    inside = is_row[:, None] & (group < I // 32)[None, :]
    value = tl.load(numbers + row[:, None] * (I // 32) + group[None, :], mask=inside, other=0.0).to(tl.float32)
    value = tl.broadcast_to(value[:, :, None], (row.shape[0], K // 32, 32 // UNIT))
    return tl.reshape(value, (row.shape[0], K // UNIT))


@triton.jit
def _weights(low, high, scale, bias, PLACE: tl.constexpr, BITS: tl.constexpr, dtype: tl.constexpr):
    """(rows, units): of the code at PLACE of each unit; with that four places on as a last dimension, if there is one.

    Codes are not shifted: their scale is divided instead.
    """
    mask: tl.constexpr = ((1 << BITS) - 1) << (BITS * PLACE)
    scale = scale * (1.0 / (1 << (BITS * PLACE)))
    weights = ((low & mask).to(tl.float32) * scale + bias).to(dtype)
    if BITS != 8:
        weights = tl.join(weights, ((high & mask).to(tl.float32) * scale + bias).to(dtype))
    return weights


@triton.jit
def _weight_tile(
    weight,
    scales,
    biases,
    row,
    is_row,
    first,
    I: tl.constexpr,
    BITS: tl.constexpr,
    K: tl.constexpr,
    dtype: tl.constexpr,
):
    """(rows, K) weights from column `first` on of the matrix rows at `row`. Zeros behind the end.

    UNIT codes at a time: these begin in one word, and end in the same or, of 5 and 6 bits, in the next. A thread
    unpacks neighbours, so writes them at once: joins make them the last dimensions, the highest bit of a number first.
    """
    if BITS == 16:
        column = first + tl.arange(0, K)
        inside = is_row[:, None] & (column < I)[None, :]
        tile = tl.load(weight + row[:, None] * I + column[None, :], mask=inside, other=0.0)
    else:
        UNIT: tl.constexpr = 4 if BITS == 8 else 8
        unit = first // UNIT + tl.arange(0, K // UNIT)
        inside = is_row[:, None] & (unit < I // UNIT)[None, :]
        at = unit * BITS // 4 if BITS == 5 or BITS == 6 else unit
        word = weight + row[:, None] * (I * BITS // 32) + at[None, :]
        low = tl.load(word, mask=inside, other=0).to(tl.uint32, bitcast=True)
        high = low >> 16
        if BITS == 5 or BITS == 6:
            high = tl.load(word + 1, mask=inside, other=0).to(tl.uint32, bitcast=True)
            both = ((high.to(tl.uint64) << 32) | low.to(tl.uint64)) >> (unit * (8 * BITS) % 32).to(tl.uint64)[None, :]
            low, high = both.to(tl.uint32), (both >> (4 * BITS)).to(tl.uint32)
        scale = _factors(scales, row, is_row, first, I, K, UNIT)
        bias = _factors(biases, row, is_row, first, I, K, UNIT)
        # Triton 3.6 compiles no block of 64 rows times codes of 5 or 6 bits if they are rounded here
        part: tl.constexpr = tl.float32 if BITS == 5 or BITS == 6 else dtype
        even = tl.join(_weights(low, high, scale, bias, 0, BITS, part), _weights(low, high, scale, bias, 2, BITS, part))
        odd = tl.join(_weights(low, high, scale, bias, 1, BITS, part), _weights(low, high, scale, bias, 3, BITS, part))
        tile = tl.reshape(tl.join(even, odd), (row.shape[0], K))
    return tile.to(dtype)


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
            tile = _weight_tile(weight, scales, biases, row, is_column, first, I, BITS, K, part.dtype)
            total = tl.dot(part, tl.trans(tile), total, input_precision="ieee")
            if GATED:
                tile = _weight_tile(weight, scales, biases, row + O, is_column, first, I, BITS, K, part.dtype)
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
    plus,
    output,
    count,
    split,
    O: tl.constexpr,
    I: tl.constexpr,
    BITS: tl.constexpr,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    PLUS_ROW: tl.constexpr,
    dtype: tl.constexpr,
):
    """M rows times N rows of the matrix, every `split`-th K columns of it: a part of the sum, (split, count, O).

    The first part begins with `plus`, whose rows are PLUS_ROW apart; below 0 there is none.
    """
    column = tl.program_id(0) * N + tl.arange(0, N)
    part_number = tl.program_id(1)
    row = tl.program_id(2) * M + tl.arange(0, M)
    is_row, is_column = row < count, column < O
    stored = is_row[:, None] & is_column[None, :]
    total = tl.zeros((M, N), tl.float32)
    if PLUS_ROW >= 0:
        begun = (row < tl.where(part_number == 0, count, 0))[:, None] & is_column[None, :]
        total = tl.load(plus + row[:, None] * PLUS_ROW + column[None, :], mask=begun, other=0.0).to(tl.float32)
    for first in range(part_number * K, I, split * K):
        depth = first + tl.arange(0, K)
        part = tl.load(rows + row[:, None] * I + depth[None, :], mask=is_row[:, None] & (depth < I)[None, :], other=0.0)
        tile = _weight_tile(words, scales, biases, column.to(tl.int64), is_column, first, I, BITS, K, dtype)
        total = tl.dot(part.to(dtype), tl.trans(tile), total, input_precision="ieee")
    at = (part_number * count + row).to(tl.int64)[:, None] * O + column[None, :]
    tl.store(output + at, total.to(output.dtype.element_ty), mask=stored)


@triton.jit(do_not_specialize=["count", "room"])
def attention_kernel(
    queries,
    keys,
    values,
    positions,
    mixed,
    scores_sums,
    scale,
    count,
    room,
    SHARING: tl.constexpr,
    D: tl.constexpr,
    R: tl.constexpr,
    DIMS: tl.constexpr,
    STEP: tl.constexpr,
    dtype: tl.constexpr,
):
    """Program (g, s) of (G, S): R rows of queries that share key head g see every S-th STEP of the rows before them.

    Writes what they mix, and their greatest score and the sum of its exponentials, which `attention_sum_kernel` joins.
    """
    head, part, parts = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    row, dim = tl.arange(0, R), tl.arange(0, DIMS)
    is_row, is_dim = row < count * SHARING, dim < D
    position = tl.load(positions + row // SHARING, mask=is_row, other=-1)
    end = tl.max(position, 0).to(tl.int32) + 1
    query = ((row // SHARING) * tl.num_programs(0) + head) * SHARING + row % SHARING
    inside = is_row[:, None] & is_dim[None, :]
    query = (tl.load(queries + query[:, None] * D + dim[None, :], mask=inside, other=0.0) * scale).to(dtype)
    greatest = tl.full((R,), -1e30, tl.float32)
    total = tl.zeros((R,), tl.float32)
    sums = tl.zeros((R, DIMS), tl.float32)
    for first in range(part * STEP, end, parts * STEP):
        seen = first + tl.arange(0, STEP)
        is_seen = (seen < end)[:, None] & is_dim[None, :]
        at = (head * room + seen).to(tl.int64)[:, None] * D + dim[None, :]
        key = tl.load(keys + at, mask=is_seen, other=0.0).to(dtype)
        score = tl.dot(query, tl.trans(key), input_precision="ieee")
        score = tl.where(seen[None, :] <= position[:, None], score, -1e30)
        before, greatest = greatest, tl.maximum(greatest, tl.max(score, 1))
        score = tl.exp(score - greatest[:, None])
        total = total * tl.exp(before - greatest) + tl.sum(score, 1)
        value = tl.load(values + at, mask=is_seen, other=0.0).to(dtype)
        sums = tl.dot(score.to(dtype), value, sums * tl.exp(before - greatest)[:, None], input_precision="ieee")
    at = (head * parts + part) * R + row
    tl.store(mixed + at[:, None] * DIMS + dim[None, :], sums)
    tl.store(scores_sums + 2 * at, greatest)
    tl.store(scores_sums + 2 * at + 1, total)


@triton.jit
def attention_sum_kernel(
    mixed,
    scores_sums,
    output,
    SHARING: tl.constexpr,
    D: tl.constexpr,
    R: tl.constexpr,
    DIMS: tl.constexpr,
    S: tl.constexpr,
):
    """Program (g, r) of (G, rows that share): joins the S parts of a row."""
    head, row = tl.program_id(0), tl.program_id(1)
    dim = tl.arange(0, DIMS)
    at = (head * S + tl.arange(0, S)) * R + row
    greatest, total = tl.load(scores_sums + 2 * at), tl.load(scores_sums + 2 * at + 1)
    share = tl.exp(greatest - tl.max(greatest, 0))
    sums = tl.sum(tl.load(mixed + at[:, None] * DIMS + dim[None, :]) * share[:, None], 0) / tl.sum(total * share, 0)
    query = ((row // SHARING) * tl.num_programs(0) + head) * SHARING + row % SHARING
    tl.store(output + query * D + dim, sums, mask=dim < D)


def use_triton_kernels(layers: Iterable[Any], queries: Tensor | None = None, keys: Tensor | None = None) -> None:
    """Lets layers multiply by these kernels: those of packed weights, and the experts of a mixture.

    Raises ModelError if kernels cannot be built here, if experts have another activation, or if a product is wrong, or
    `attention` of some `queries` and `keys`. One layer of each shape is tried, and not the model: through its layers
    rounding grows beyond any limit.
    """
    require_toolchain()
    if queries is not None and keys is not None:
        positions = torch.arange(keys.shape[1] - len(queries), keys.shape[1], device=keys.device)
        _check(attention, _plain_attention, queries, keys, keys.flip(1), positions)
    layers = list(layers)
    linears = [layer for layer in layers if isinstance(layer, PackedLinear)]
    mixtures = [layer for layer in layers if hasattr(layer, "gate_up_proj")]
    for weight in {(linear.shape, linear.weight.bits): linear.weight for linear in linears}.values():
        for rows in _random_rows(weight.shape[1], weight.words.device):
            _check(packed_product, packed.packed_product, rows, weight)
    for experts in {(_parts(layer.gate_up_proj)[3], _parts(layer.down_proj)[3]): layer for layer in mixtures}.values():
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


def _plain_attention(queries: Tensor, keys: Tensor, values: Tensor, positions: Tensor) -> Tensor:
    sharing = queries.shape[1] // len(keys)
    keys, values = (rows.to(queries.dtype).repeat_interleave(sharing, 0) for rows in (keys, values))
    visible = torch.arange(keys.shape[1], device=keys.device) <= positions[:, None]
    mixed = functional.scaled_dot_product_attention(queries.transpose(0, 1), keys, values, attn_mask=visible)
    return mixed.transpose(0, 1).flatten(1)


def _check(kernel: Callable[..., Tensor], fall_back: Callable[..., Tensor], rows: Tensor, *others: Any) -> None:
    """Raises ModelError if a row of the kernel's product is too far from the one in float32."""
    exact = fall_back(rows.float(), *others)
    products = kernel(rows, *others), fall_back(rows, *others)
    error, usual = (float(((product.float() - exact).norm(dim=1) / exact.norm(dim=1)).max()) for product in products)
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
    wide, columns = weight.shape[1] // (1 + gated), BLOCK_COLUMNS // (1 + gated)
    output = rows.new_empty(pairs, wide)
    sizes = {"SHARE": share, "O": wide, "I": weight.shape[2], "BITS": bits, "GATED": gated}
    deep = gated and bits == _PLAIN_BITS
    sizes |= {"M": block, "N": columns, "K": BLOCK_DEPTH << deep, "num_warps": WARPS}
    sizes["num_stages"] = 2 if deep else stages(bits)
    grid = len(plan[1]), triton.cdiv(wide, columns)
    experts_kernel[grid](rows, *parts, rows if gated else router_weights, output, *blocks, pairs, **sizes)
    return output


def packed_product(
    rows: Tensor, weight: PackedWeight, dtype: torch.dtype | None = None, plus: Tensor | None = None
) -> Tensor:
    """See `packed.packed_product`. Few rows are rounded, and `plus` added, in the same kernel."""
    count, (high, wide) = len(rows), weight.shape
    dtype = dtype or rows.dtype
    if count > DENSE_BLOCKS[0] and (plus is not None or rows.dtype != dtype):
        product = packed_product(rows.to(dtype), weight)
        return product if plus is None else plus + product
    block = DENSE_BLOCKS[count > DENSE_BLOCKS[0]]
    grid = triton.cdiv(high, DENSE_COLUMNS), triton.cdiv(count, block)
    programs = _PROGRAMS if block == DENSE_BLOCKS[0] else _PROGRAMS_OF_MANY
    split = max(1, min(programs // (grid[0] * grid[1]), triton.cdiv(wide, 2 * DENSE_DEPTH)))
    output_dtype = rows.dtype if plus is None else plus.dtype
    output = rows.new_empty((split, count, high), dtype=torch.float32 if split > 1 else output_dtype)
    *parts, bits = _parts(weight)
    sizes = {"O": high, "I": wide, "BITS": bits, "M": block, "N": DENSE_COLUMNS, "K": DENSE_DEPTH}
    sizes |= {"PLUS_ROW": -1 if plus is None else high * (plus.ndim - 1), "dtype": _multiplied(dtype)}
    sizes |= {"num_warps": WARPS, "num_stages": stages(bits)}
    plus = rows if plus is None else plus.contiguous()
    dense_kernel[(grid[0], split, grid[1])](rows.contiguous(), *parts, plus, output, count, split, **sizes)
    return (output.sum(0) if split > 1 else output[0]).to(output_dtype)


def attention(queries: Tensor, keys: Tensor, values: Tensor, positions: Tensor, scale: float | None = None) -> Tensor:
    """Queries (n, H, D) float32 over the rows of (G, T, D) keys and values up to their positions (n,) -> (n, H * D)."""
    (count, heads, size), (kv_heads, room, _) = queries.shape, keys.shape
    rows = triton.next_power_of_2(max(16, count * heads // kv_heads))
    sizes = {"SHARING": heads // kv_heads, "D": size, "R": rows, "DIMS": max(16, triton.next_power_of_2(size))}
    mixed = queries.new_empty(kv_heads, ATTENTION_PARTS, rows, sizes["DIMS"])
    sums, output = queries.new_empty(kv_heads, ATTENTION_PARTS, rows, 2), queries.new_empty(count, heads * size)
    tensors = queries.contiguous(), keys, values, positions, mixed, sums
    step = {"STEP": ATTENTION_STEP, "dtype": _multiplied(keys.dtype), "num_warps": WARPS if rows < 64 else 2 * WARPS}
    attention_kernel[(kv_heads, ATTENTION_PARTS)](*tensors, scale or size**-0.5, count, room, **sizes, **step)
    grid = kv_heads, count * heads // kv_heads
    attention_sum_kernel[grid](mixed, sums, output, **sizes, S=ATTENTION_PARTS)
    return output


def _multiplied(dtype: torch.dtype) -> tl.dtype:
    """What the interpreter can multiply is float32 alone."""
    return tl.float32 if triton.knobs.runtime.interpret or dtype == torch.float32 else tl.bfloat16


def stages(bits: int) -> int:
    """How many steps of a product are under way: codes of 5 and 6 bits are read word by word, which nothing hides."""
    return 1 if bits in (5, 6) else 3


def _multipliable(rows: Tensor) -> Tensor:
    """In order in memory; in float32 for the interpreter, which multiplies no bfloat16."""
    return (rows.float() if triton.knobs.runtime.interpret else rows).contiguous()


def _parts(weight: Tensor | PackedWeight) -> tuple[Tensor, Tensor, Tensor, int]:
    if isinstance(weight, Tensor):
        return weight, weight, weight, _PLAIN_BITS
    return weight.words, weight.scales, weight.biases, weight.bits
