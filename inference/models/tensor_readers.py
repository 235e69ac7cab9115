"""Reads the tensors of a checkpoint one at a time, so that they are never all in memory together."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Final

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from inference.models import checkpoint_files
from inference.models.checkpoint import Checkpoint
from inference.models.family import ModelError
from inference.models.gguf.header import GgufFile, GgufTensor

_BLOCK_WEIGHTS: Final = 1 << 22
"""Read about this many weights of a tensor at a time."""
_UNPACKED_WEIGHTS: Final = 1 << 18
"""Dequantise about this many weights at a time: 1 MB in float32, which a cache holds. Blocks of 16 MB took no less
time, and left 110 MB more to the allocator when half a billion weights were packed.
"""


class TensorReader:
    """The tensors of a checkpoint, by the hub's names. Nothing stays mapped."""

    name: str
    shapes: Mapping[str, tuple[int, ...]]

    def blocks(self, name: str, shape: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        """The rows of a tensor, some megabytes at a time: the number of the first, and (n, columns) on the CPU.

        Valid until the next one. Of a tensor with more dimensions all but the last count the rows. Raises ModelError if
        it is missing, of another shape or unreadable.
        """
        raise NotImplementedError

    def tensor(self, name: str, shape: Sequence[int], device: torch.device, dtype: torch.dtype) -> Tensor:
        """A copy of a tensor in this dtype. Raises ModelError as `blocks`."""
        tensor = torch.empty(tuple(shape), device=device, dtype=dtype)
        rows = tensor.view(-1, tensor.shape[-1])
        for first, block in self.blocks(name, shape):
            rows[first : first + len(block)] = block
        return tensor

    def require(self, name: str, shape: Sequence[int]) -> None:
        """Raises ModelError if the tensor is missing or of another shape."""
        found = self.shapes.get(name)
        if found != tuple(shape):
            what = "missing" if found is None else f"of shape {list(found)}, not {list(shape)}"
            raise ModelError(f"{self.name}: the weight {name} is {what}; download the checkpoint again")


class SafetensorsReader(TensorReader):
    """The tensors of safetensors files. Each access opens and closes a file."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Reads only the headers. Raises ModelError if one cannot be read."""
        self.name = checkpoint.name
        self._stored = checkpoint_files.stored_tensors(checkpoint.folder)
        self.shapes = {name: tensor.shape for name, tensor in self._stored.items()}

    def blocks(self, name: str, shape: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        self.require(name, shape)
        file = self._stored[name].file
        step = max(1, _BLOCK_WEIGHTS // prod(shape[1:]))
        try:
            for first in range(0, shape[0], step):
                with safe_open(file, "pt") as opened:
                    block = opened.get_slice(name)[first : first + step]
                    yield first * prod(shape[1:-1]), block.view(-1, shape[-1])
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{self.name}: {file} cannot be loaded: {error}") from error


class GgufReader(TensorReader):
    """The tensors in a GGUF file, each dequantised to float32 on access."""

    def __init__(self, name: str, file: GgufFile) -> None:
        self.name = name
        self._file = file
        self._stored = file.stored_tensors()
        self.shapes = {name: tensor.shape for name, tensor in self._stored.items()}

    def blocks(self, name: str, shape: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        self.require(name, shape)
        tensor = self._stored[name]
        row_bytes = _row_bytes(tensor)
        rows = prod(tensor.shape[:-1])
        step = max(1, _UNPACKED_WEIGHTS // tensor.shape[-1])
        for first in range(0, rows, step):
            begin, end = (tensor.begin + row * row_bytes for row in (first, min(rows, first + step)))
            yield first, _plain(self._file.bytes_at(begin, end), tensor)

    def in_file(self, name: str) -> "StoredRows":
        """A matrix to look up rows in, which stays in the file."""
        return StoredRows(self._file, self._stored[name])


class StoredRows:
    """A matrix (O, I) that stays in its file, which stays open: a vocabulary's, of which a pass needs some rows."""

    def __init__(self, file: GgufFile, tensor: GgufTensor) -> None:
        """Raises ModelError."""
        self._file = file
        self._tensor = tensor
        self._stream = file.opened()

    def rows(self, numbers: Tensor) -> Tensor:
        """(n,) -> these rows, float32 (n, I). Raises ModelError."""
        begin = self._tensor.begin
        row_bytes = _row_bytes(self._tensor)
        raw = [self._file.read(self._stream, begin + row * row_bytes, row_bytes) for row in numbers.tolist()]
        return _plain(b"".join(raw), self._tensor)


def open_tensors(checkpoint: Checkpoint) -> TensorReader:
    return GgufReader(checkpoint.name, checkpoint.gguf) if checkpoint.gguf else SafetensorsReader(checkpoint)


def _row_bytes(tensor: GgufTensor) -> int:
    return tensor.shape[-1] // tensor.type_.block_size * tensor.type_.block_bytes


def _plain(raw: bytes, tensor: GgufTensor) -> Tensor:
    """The stored rows in `raw`, float32."""
    from gguf.constants import GGMLQuantizationType  # few checkpoints need it
    from gguf.quants import dequantize

    stored = np.frombuffer(raw, np.uint8).reshape(-1, _row_bytes(tensor))
    with np.errstate(invalid="ignore", over="ignore"):  # a family checks for the results of broken scales
        plain = dequantize(stored, GGMLQuantizationType[tensor.type_.name])
    return torch.from_numpy(np.array(plain, np.float32, copy=None if plain.flags.writeable else True))
