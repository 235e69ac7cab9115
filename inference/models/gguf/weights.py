"""The tensors of a GGUF file, each dequantised when it is asked for, so that they never stand in memory together."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

import numpy as np
import torch
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize
from torch import Tensor

from inference.models.family import ModelError
from inference.models.gguf import stated
from inference.models.gguf.header import GgufFile, StoredTensor

_BLOCK_WEIGHTS: Final = 1 << 18
"""About so many weights are dequantised at a time: 1 MB in float32, which a cache holds. Blocks of 16 MB took no less
time, and left 110 MB more to the allocator where half a billion weights were packed."""


class GgufWeights:
    """What a GGUF file holds, behind the `Weights` protocol of shards.py. Nothing stays mapped."""

    def __init__(self, name: str, file: GgufFile) -> None:
        """`name`: what the user calls the model."""
        self.name, self._file, self._stored = name, file, stated.stored_tensors(file)
        self.shapes = {name: tensor.shape for name, tensor in self._stored.items()}

    def tensor(self, name: str, shape: Sequence[int], device: torch.device, dtype: torch.dtype) -> Tensor:
        """See `Weights`."""
        made = torch.empty(tuple(shape), device=device, dtype=dtype)
        rows = made.view(-1, made.shape[-1])
        for first, block in self.rows(name, shape):
            rows[first : first + len(block)] = block
        return made

    def rows(self, name: str, shape: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        """See `Weights`: in float32."""
        found = self._stored.get(name)
        if found is None or found.shape != tuple(shape):
            what = "missing" if found is None else f"of shape {list(found.shape)}, not {list(shape)}"
            raise ModelError(f"{self.name}: the weight {name} is {what}; download the file again")
        yield from _blocks(self._file, found)


def _blocks(file: GgufFile, tensor: StoredTensor) -> Iterator[tuple[int, Tensor]]:
    columns, type_ = tensor.shape[-1], tensor.type_
    row_bytes, rows = columns // type_.weights * type_.bytes_, prod(tensor.shape[:-1])
    step = max(1, _BLOCK_WEIGHTS // columns)
    for first in range(0, rows, step):
        last = min(rows, first + step)
        raw = file.bytes_at(tensor.begin + first * row_bytes, tensor.begin + last * row_bytes)
        stored = np.frombuffer(raw, np.uint8).reshape(last - first, row_bytes)
        with np.errstate(invalid="ignore", over="ignore"):  # a family looks for what broken scales give
            plain = dequantize(stored, GGMLQuantizationType[type_.name])
        yield first, torch.from_numpy(np.array(plain, np.float32, copy=None if plain.flags.writeable else True))
