"""GGUF's weights as affine groups: equal to gguf's own reader, also for blocks that no quantiser writes."""

from pathlib import Path
from tempfile import TemporaryDirectory

import gguf
import numpy as np
import pytest
import torch

from inference.models.family import ModelError
from inference.models.gguf import affine, header
from inference.models.packed import PackedWeight, quantise
from inference.models.tensor_readers import GgufReader
from tests.served.to_gguf import finish

TYPES = gguf.GGMLQuantizationType

SCALES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q4_K": (0, 2), "Q5_K": (0, 2)}
"""Where a block has its numbers of 16 bits."""
ROUNDED = {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,)}
EXTREME = (0.0, -0.0, 6e-8, -6e-8, 5e-5, 200.0, -200.0)
"""No scale, the least that 16 bits have, one that has not all of their digits, and large ones."""


def blocks(kind: str, scales: np.ndarray, columns: int = 512) -> np.ndarray:
    """Rows of random codes with these (n,) scales: (n, bytes of a row)."""
    drawn = np.random.default_rng(3)
    block_size, size = gguf.GGML_QUANT_SIZES[TYPES[kind]]
    raw = drawn.integers(0, 256, (len(scales), columns // block_size, size), np.uint8)
    for at in (SCALES | ROUNDED)[kind]:
        raw[:, :, at : at + 2] = scales.astype("<f2")[:, None].view(np.uint8)[:, None]
    return raw.reshape(len(scales), -1)


def usual(count: int) -> np.ndarray:
    return np.random.default_rng(4).uniform(0.01, 0.1, count)


def read(raw: np.ndarray, kind: str) -> PackedWeight:
    """The rows as a file holds them, as they are packed here."""
    with TemporaryDirectory() as folder:
        file, shape = Path(folder) / "one.gguf", tuple(gguf.quant_shape_from_byte_shape(raw.shape, TYPES[kind]))
        return reader(file, raw, kind).read_quantised("rows", shape, affine.code_bits(kind))


def reader(file: Path, raw: np.ndarray, kind: str) -> GgufReader:
    writer = gguf.GGUFWriter(file, "qwen2")
    writer.add_tensor("rows", raw, raw_dtype=TYPES[kind])
    finish(writer)
    return GgufReader("it", header.read_header(file))


@pytest.mark.parametrize("kind", SCALES)
@pytest.mark.parametrize("scales", [usual(40), np.array(EXTREME)], ids=["usual", "extreme"])
def test_codes_are_those_of_the_file(kind: str, scales: np.ndarray) -> None:
    """Scales and biases have 16 bits, to which those of the K types are rounded."""
    raw = blocks(kind, scales)
    (codes, factors, biases), plain = affine.affine_rows(raw, kind), gguf.dequantize(raw, TYPES[kind])
    assert affine.code_bits(kind) == int(kind[1])
    spread = factors[..., None] * codes.reshape(*factors.shape, affine.GROUP_SIZE)
    assert np.array_equal((spread + biases[..., None]).reshape(plain.shape), plain)
    found = read(raw, kind)
    assert np.array_equal(found.codes().numpy(), codes)
    moved = found.weights(torch.float32).numpy() - plain
    assert np.linalg.norm(moved) <= (2**-11 if kind.endswith("_K") else 0) * np.linalg.norm(plain)
    assert (np.abs(moved) <= 2**-10 * np.abs(plain).max(1, keepdims=True)).all()


@pytest.mark.parametrize(("kind", "most"), [("Q2_K", 0.06), ("Q3_K", 0.04), ("Q6_K", 0.006)])
def test_the_others_are_rounded_to_few_bits(kind: str, most: float) -> None:
    raw = blocks(kind, usual(40))
    plain = gguf.dequantize(raw, TYPES[kind])
    assert 0 < np.linalg.norm(read(raw, kind).weights(torch.float32).numpy() - plain) < most * np.linalg.norm(plain)
    assert affine.is_requantised(kind)


@pytest.mark.parametrize("bits", [4, 5, 6, 8])
def test_rounded_weights_are_within_half_a_step(bits: int) -> None:
    """And their codes are one stream of bits, the lowest first."""
    torch.manual_seed(5)
    rows = torch.randn(20, 96) + 0.1
    rows[0], rows[1, :32], rows[2, 5] = 0, 0.25, 1000
    groups = quantise(rows, bits)
    weights = groups.weights(torch.float32)
    steps = groups.scales.float().repeat_interleave(32, 1)
    assert ((weights - rows).abs() <= 0.51 * steps + 2**-9 * rows.abs()).all()
    assert (weights[0] == 0).all()
    assert (weights[1, :32] == 0.25).all()
    stream = groups.codes().numpy()[..., None] >> np.arange(bits) & 1
    wanted = np.packbits(stream.reshape(20, -1).astype(np.uint8), axis=1, bitorder="little")
    assert np.array_equal(groups.words.numpy().view(np.uint8), wanted)


@pytest.mark.parametrize("kind", [*SCALES, *ROUNDED])
@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_broken_scales_are_a_clear_error(kind: str, broken: float) -> None:
    with pytest.raises(ModelError, match="it: rows holds NaN or infinity; download the checkpoint again"):
        read(blocks(kind, np.array([0.1, broken])), kind)


def test_experts_are_read_some_rows_at_a_time(tmp_path: Path) -> None:
    raw = blocks("Q4_K", usual(4 * 200))
    found = reader(tmp_path / "experts.gguf", raw.reshape(4, 200, -1), "Q4_K")
    parts = [*found.quantised_blocks("rows", (4, 200, 512), 4, torch.device("cpu"))]
    assert [first for first, _ in parts] == [0, 400]
    codes, _, biases = affine.affine_rows(raw, "Q4_K")
    assert (np.concatenate([block.codes() for _, block in parts]) == codes).all()
    assert (np.concatenate([block.biases for _, block in parts]) == biases.astype(np.float16)).all()
