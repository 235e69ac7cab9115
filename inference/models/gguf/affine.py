"""Decodes the bytes of a GGUF tensor: to float32, or to affine groups of 32, weight = scale * code + bias.

The codes of most types are such groups already and stay as they are. Those of the K types with groups of 16 do not:
their numbers are rounded once more. Knows arrays of NumPy alone. Shapes: n rows of I columns, of whatever dimensions.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

GROUP_SIZE = 32
_OWN_BITS = {"Q4_0": 4, "Q4_1": 4, "Q5_0": 5, "Q5_1": 5, "Q8_0": 8, "Q4_K": 4, "Q5_K": 5}
_REQUANTISED_BITS = {"Q2_K": 4, "Q3_K": 5, "Q6_K": 8}
"""The fewest that make the type's own loss less than a twentieth larger. Both measured in shares of the weights: Q2_K
loses .258 and 4 bits .041; Q3_K .119 and 5 bits .032; Q6_K .020 and 8 bits .005, where 6 would lose .019.
"""


Groups = tuple[NDArray[Any], NDArray[np.float32], NDArray[np.float32]]
"""Codes (n, I), and scales and biases (n, I / 32), of blocks or of rows."""


def code_bits(kind: str) -> int:
    """How many bits a code of a type has here; 0 if the type has no codes."""
    return (_OWN_BITS | _REQUANTISED_BITS).get(kind, 0)


def is_requantised(kind: str) -> bool:
    return kind in _REQUANTISED_BITS


def dequantise(raw: NDArray[np.uint8], kind: str) -> NDArray[np.float32]:
    """Stored rows (n, bytes of a row) -> (n, I)."""
    from gguf.constants import GGMLQuantizationType  # few checkpoints need it
    from gguf.quants import dequantize

    with np.errstate(invalid="ignore", over="ignore"):  # a family checks for the results of broken scales
        plain = dequantize(raw, GGMLQuantizationType[kind])
    return np.array(plain, np.float32, copy=None if plain.flags.writeable else True)


def affine_rows(raw: NDArray[np.uint8], kind: str) -> Groups:
    """Stored rows (n, bytes of a row) of a type with codes of its own, which are below 2^`code_bits`.

    In float32 scales and biases are exact. What is broken there is not finite here.
    """
    bits = _OWN_BITS[kind]
    groups = _super_blocks(raw, bits) if kind.endswith("_K") else _small_blocks(raw, bits, kind[-1])
    return groups[0].reshape(len(raw), -1), groups[1].reshape(len(raw), -1), groups[2].reshape(len(raw), -1)


def _small_blocks(raw: NDArray[np.uint8], bits: int, version: str) -> Groups:
    """Q4_0 to Q8_0: scale, in version 1 a bias, in 5 bits each code's highest, then the codes, half of them below."""
    head = 4 if version == "1" else 2
    size = head + {4: 16, 5: 20, 8: 32}[bits]
    blocks = raw.reshape(-1, size)
    numbers = _halves(blocks[:, :head])
    scales = numbers[:, 0]
    biases = numbers[:, 1] if version == "1" else scales * -(1 << (bits - 1))
    if bits == 8:
        return blocks[:, 2:] ^ 0x80, scales, biases  # from signed numbers to those above the least
    codes = np.concatenate([blocks[:, -16:] & 15, blocks[:, -16:] >> 4], 1)
    if bits == 5:
        codes |= np.unpackbits(blocks[:, head : head + 4], axis=1, bitorder="little") << 4
    return codes, scales, biases


def _super_blocks(raw: NDArray[np.uint8], bits: int) -> Groups:
    """Q4_K and Q5_K: eight groups whose scales and biases are six bits each of two numbers for them all."""
    blocks = raw.reshape(-1, 144 if bits == 4 else 176)
    scale, bias = _halves(blocks[:, :4]).T[..., None]
    first, second, third = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6 << 4)], 1)
    biases = np.concatenate([second & 63, (third >> 4) | (second >> 6 << 4)], 1)
    pairs = blocks[:, -128:].reshape(-1, 4, GROUP_SIZE)
    codes = np.stack([pairs & 15, pairs >> 4], 2).reshape(-1, 8, GROUP_SIZE)
    if bits == 5:
        codes |= (blocks[:, 16:48][:, None] >> np.arange(8, dtype=np.uint8)[:, None] & 1) << 4
    with np.errstate(invalid="ignore"):
        return codes, scale * scales, -bias * biases


def _halves(raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.ascontiguousarray(raw).view("<f2").astype(np.float32)
