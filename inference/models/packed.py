"""Weights that stay in a few bits in memory: affine groups of 32, weight = scale * code + bias, as gguf/affine.py packs
them. Shapes: O rows of I columns, of as many matrices as the leading dimensions count.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from inference.models.gguf.affine import GROUP


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
        return *self.scales.shape[:-1], self.scales.shape[-1] * GROUP

    def __getitem__(self, index: int | slice | Tensor) -> "PackedWeight":
        """A part of the first dimension, a view unless `index` is a tensor."""
        return PackedWeight(self.words[index], self.scales[index], self.biases[index], self.bits)

    def codes(self) -> Tensor:
        """uint8 (..., O, I)."""
        octets = self.words.view(torch.uint8)
        if self.bits == 8:
            return octets
        eights = octets.unflatten(-1, (-1, self.bits))  # bytes, which hold eight codes
        codes = octets.new_empty((*eights.shape[:-1], 8))
        for place in range(8):
            byte, shift = divmod(place * self.bits, 8)
            code = eights[..., byte] >> shift
            if shift + self.bits > 8:
                code |= eights[..., byte + 1] << (8 - shift)
            codes[..., place] = code & ((1 << self.bits) - 1)
        return codes.flatten(-2)

    def weights(self, dtype: torch.dtype) -> Tensor:
        """(..., O, I), computed in float32."""
        groups = self.codes().unflatten(-1, (-1, GROUP)).float()
        groups *= self.scales[..., None]
        groups += self.biases[..., None]
        return groups.flatten(-2).to(dtype)
