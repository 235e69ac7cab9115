"""GGUF's weights as affine groups: equal to gguf's own reader, also for blocks that no quantiser writes."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from inference.models.gguf import affine, header
from inference.models.tensor_readers import GgufReader

SCALES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q4_K": (0, 2), "Q5_K": (0, 2)}
"""Where a block has its numbers of 16 bits."""
ROUNDED = {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,)}
EXTREME = (0.0, -0.0, 6e-8, -6e-8, 5e-5, 200.0, -200.0)
"""No scale, the least that 16 bits have, one that has not all of their digits, and large ones."""


def blocks(kind: str, scales: np.ndarray, columns: int = 512) -> np.ndarray:
    """Rows of random codes with these (n,) scales: (n, bytes of a row)."""
    drawn = np.random.default_rng(3)
    block_size, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    raw = drawn.integers(0, 256, (len(scales), columns // block_size, size), np.uint8)
    for at in (SCALES | ROUNDED)[kind]:
        raw[:, :, at : at + 2] = scales.astype("<f2")[:, None].view(np.uint8)[:, None]
    return raw.reshape(len(scales), -1)


def usual(count: int) -> np.ndarray:
    return np.random.default_rng(4).uniform(0.01, 0.1, count)


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize("scales", [usual(40), np.array(EXTREME)], ids=["usual", "extreme"])
def test_codes_are_those_of_the_file(kind: str, scales: np.ndarray) -> None:
    raw = blocks(kind, scales)
    groups, plain = affine.affine_rows(raw, kind), gguf.dequantize(raw, gguf.GGMLQuantizationType[kind])
    assert groups.bits == affine.bits_of(kind) == int(kind[1])
    assert groups.codes.max() < 1 << groups.bits
    codes, of_scales = affine.rounding_errors(raw, kind)
    assert codes == 0
    assert of_scales <= (2**-11 if kind.endswith("_K") else 0)
    largest = np.abs(plain).max(1, keepdims=True)
    assert (np.abs(groups.weights() - plain) <= 2**-10 * largest).all()


@pytest.mark.parametrize(("kind", "most"), [("Q2_K", 0.06), ("Q3_K", 0.04), ("Q6_K", 0.006)])
def test_the_others_are_rounded_to_few_bits(kind: str, most: float) -> None:
    codes, of_scales = affine.rounding_errors(blocks(kind, usual(40)), kind)
    assert 0 < codes < most
    assert of_scales == 0
    assert affine.is_requantised(kind)


@pytest.mark.parametrize("bits", [4, 5, 6, 8])
def test_rounded_weights_are_within_half_a_step(bits: int) -> None:
    rows = np.random.default_rng(5).normal(0.1, 1, (20, 96)).astype(np.float32)
    rows[0], rows[1, :32], rows[2, 5] = 0, 0.25, 1000
    groups = affine.quantised(rows, bits)
    steps = np.repeat(groups.scales.astype(np.float32), 32, 1)
    assert (np.abs(groups.weights() - rows) <= 0.51 * steps + 2**-9 * np.abs(rows)).all()
    assert (groups.weights()[0] == 0).all()
    assert (groups.weights()[1, :32] == 0.25).all()


@pytest.mark.parametrize("bits", [4, 5, 6, 8])
def test_packed_codes_are_one_stream_of_bits(bits: int) -> None:
    groups = affine.quantised(np.random.default_rng(6).normal(size=(3, 64)).astype(np.float32), bits)
    stream = groups.codes[..., None] >> np.arange(bits) & 1
    wanted = np.packbits(stream.reshape(3, -1).astype(np.uint8), axis=1, bitorder="little")
    assert (groups.packed().view(np.uint8) == wanted).all()


@pytest.mark.parametrize("kind", [*SCALES, *ROUNDED])
@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_broken_scales_are_not_finite(kind: str, broken: float) -> None:
    groups = affine.affine_rows(blocks(kind, np.array([0.1, broken])), kind)
    finite = np.isfinite(groups.scales).all(1) & np.isfinite(groups.biases).all(1)
    assert finite.tolist() == [True, False]


def test_experts_are_read_some_rows_at_a_time(tmp_path: Path) -> None:
    raw = blocks("Q4_K", usual(4 * 200))
    writer = gguf.GGUFWriter(tmp_path / "experts.gguf", "qwen2")
    writer.add_tensor("experts", raw.reshape(4, 200, -1), raw_dtype=gguf.GGMLQuantizationType.Q4_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    reader = GgufReader("it", header.read_header(tmp_path / "experts.gguf"))
    read = [*reader.affine_blocks("experts", (4, 200, 512), None)]
    assert [first for first, _ in read] == [0, 400]
    wanted = affine.affine_rows(raw, "Q4_K")
    assert (np.concatenate([block.codes for _, block in read]) == wanted.codes).all()
    assert (np.concatenate([block.biases for _, block in read]) == wanted.biases).all()
