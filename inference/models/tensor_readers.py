"""Reads the tensors of a checkpoint one at a time, so that they are never all in memory together."""

import hashlib
import logging
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from math import prod
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from inference.models import checkpoint_files
from inference.models.checkpoint import Checkpoint
from inference.models.family import ModelError
from inference.models.gguf import affine
from inference.models.gguf.architectures import hub_tensors
from inference.models.gguf.header import GgufFile, GgufTensor, open_file, read_bytes
from inference.models.model_store import quantised_folder
from inference.models.packed import PackedWeight, quantise, rows_at_a_time

log = logging.getLogger(__name__)

_CPU: Final = torch.device("cpu")
_WORD_BITS: Final = 32
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
    note = ""
    """See `ModelAdapter.note`."""

    def blocks(self, name: str, shape: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        """The rows of a tensor, some megabytes at a time: the number of the first, and (n, columns) on the CPU.

        Valid until the next one. Of a tensor with more dimensions all but the last count the rows. Raises ModelError if
        it is missing, of another shape or unreadable.
        """
        raise NotImplementedError

    def stored_bits(self, _name: str) -> int:
        """How many bits the file's codes of a tensor have; 0 if it is not quantised."""
        return 0

    def quantised_blocks(
        self, name: str, shape: Sequence[int], bits: int, device: torch.device
    ) -> Iterator[tuple[int, PackedWeight]]:
        """As `blocks`, packed: the file's own codes if they have `bits`, otherwise quantised on the device."""
        step = rows_at_a_time(device, shape[-1])
        for first, block in self.blocks(name, shape):
            for begin in range(0, len(block), step):
                yield first + begin, quantise(block[begin : begin + step].to(device), bits)

    def read_quantised(self, name: str, shape: Sequence[int], bits: int, device: torch.device = _CPU) -> PackedWeight:
        """A whole tensor as `quantised_blocks` gives it. Raises ModelError, also if a scale is not finite."""
        wide = shape[-1]
        words = torch.empty((prod(shape[:-1]), wide * bits // _WORD_BITS), dtype=torch.int32, device=device)
        scales, biases = torch.empty((2, len(words), wide // affine.GROUP_SIZE), dtype=torch.float16, device=device)
        for first, block in self.quantised_blocks(name, shape, bits, device):
            rows = slice(first, first + len(block.words))
            words[rows], scales[rows], biases[rows] = block.words, block.scales, block.biases
        if not bool(scales.isfinite().all() and biases.isfinite().all()):
            raise self.not_finite_error(name)
        return PackedWeight(words, scales, biases, bits).with_rows(lambda part: part.view(*shape[:-1], -1))

    def code_bits(self, name: str, dtype: str, min_bits: int = 0) -> int:
        """The bits of each code of a weight in a dtype; 0 if it stays unpacked. Raises ModelError if it must be packed
        and cannot be.

        In the file's own dtype they are the file's; otherwise those that the dtype names, but at least `min_bits`.
        """
        shape = self.shapes[name]
        if not dtype.endswith("bit") or len(shape) == 1:
            return 0
        if dtype == self.packed_dtype:
            return self.stored_bits(name)
        if shape[-1] % affine.GROUP_SIZE:
            reason = (
                f"packs groups of {affine.GROUP_SIZE} weights, and a row of {name} has {shape[-1]}; choose bfloat16"
            )
            raise ModelError(f"{self.name}: dtype '{dtype}' {reason}")
        return max(min_bits, int(dtype.removesuffix("bit")))

    @cached_property
    def packed_dtype(self) -> str:
        """The bits of most weights' codes, such as "4bit"; "" for plain numbers."""
        sizes: Counter[int] = Counter()
        for name, shape in self.shapes.items():
            sizes[self.stored_bits(name)] += prod(shape)
        bits = max(sizes, key=lambda size: sizes[size], default=0)
        return f"{bits}bit" if bits else ""

    def not_finite_error(self, name: str) -> ModelError:
        return ModelError(f"{self.name}: {name} holds NaN or infinity; download the checkpoint again")

    def tensor(self, name: str, shape: Sequence[int], device: torch.device, dtype: torch.dtype) -> Tensor:
        """A copy of a tensor in this dtype. Raises ModelError as `blocks`."""
        tensor = torch.empty(tuple(shape), device=device, dtype=dtype)
        rows = tensor.view(-1, tensor.shape[-1])
        for first, block in self.blocks(name, shape):
            rows[first : first + len(block)] = block
        return tensor

    def require_tensor(self, name: str, shape: Sequence[int]) -> None:
        """Raises ModelError if the tensor is missing or of another shape."""
        stored_shape = self.shapes.get(name)
        if stored_shape != tuple(shape):
            problem = "missing" if stored_shape is None else f"of shape {list(stored_shape)}, not {list(shape)}"
            raise ModelError(f"{self.name}: the weight {name} is {problem}; download the checkpoint again")


class SafetensorsReader(TensorReader):
    """The tensors of safetensors files. Each access opens and closes a file."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Reads only the headers. Raises ModelError if one cannot be read."""
        self.name = checkpoint.name
        self._stored = checkpoint_files.stored_tensors(checkpoint.folder)
        self.shapes = {name: tensor.shape for name, tensor in self._stored.items()}

    def blocks(self, name: str, shape: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        self.require_tensor(name, shape)
        file = self._stored[name].file
        step = max(1, _BLOCK_WEIGHTS // prod(shape[1:]))
        try:
            for first in range(0, shape[0], step):
                with safe_open(file, "pt") as opened:
                    block = opened.get_slice(name)[first : first + step]
                    yield first * prod(shape[1:-1]), block.view(-1, shape[-1])
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{self.name}: {file} cannot be loaded: {error}") from error


class QuantisedCacheReader(SafetensorsReader):
    """The tensors of safetensors files. What the first load quantises them to, later ones read from the user's cache.

    There each tensor has a file: a load that was interrupted goes on where it stopped. A file that is missing, damaged
    or of other weights is written again.
    """

    def __init__(self, checkpoint: Checkpoint, needed_bytes: float) -> None:
        """`needed_bytes`: what all weights take, also those that are not quantised. Raises ModelError."""
        super().__init__(checkpoint)
        digest = hashlib.sha256(os.fsencode(checkpoint.folder.resolve())).hexdigest()[:16]
        self._folder = quantised_folder() / digest
        self._missing_bytes = needed_bytes - sum(file.stat().st_size for file in self._folder.glob("*.safetensors"))

    def read_quantised(self, name: str, shape: Sequence[int], bits: int, device: torch.device = _CPU) -> PackedWeight:
        source, file = self._stored[name].file.resolve(), self._folder / f"{name}.{bits}bit.safetensors"
        try:
            status = source.stat()
        except OSError as error:
            raise ModelError(f"{self.name}: {source} cannot be loaded: {error}") from error
        about = f"format 1, {str(source)!a}, {status.st_size}, {status.st_mtime_ns}"
        with suppress(OSError, SafetensorError), safe_open(file, "pt") as opened:
            parts = {part: opened.get_tensor(part).to(device, copy=True) for part in opened.keys()}  # noqa: SIM118
            if opened.metadata() == _metadata(about, parts):
                return PackedWeight(**parts, bits=bits)
        weight = super().read_quantised(name, shape, bits, device)
        if not self.note:
            parts = {part: value.cpu() for part, value in vars(weight).items() if part != "bits"}
            new = file.with_suffix(".part")
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                if shutil.disk_usage(self._folder).free < self._missing_bytes:
                    raise OSError(f"{self._missing_bytes / 1e9:.1f} GB do not fit")
                new.write_bytes(save(parts, _metadata(about, parts)))  # `save_file` maps it: a full disk would kill
                self._missing_bytes -= new.stat().st_size
                new.replace(file)
            except FileNotFoundError:  # another worker of the model, which wrote to it too, has put it in its place
                pass
            except OSError as error:
                with suppress(OSError):
                    new.unlink()
                self.note = f"each start quantises its weights, which {self._folder.parent} cannot keep: {error}"
        return weight


class GgufReader(TensorReader):
    """The tensors in a GGUF file, each dequantised to float32 on access."""

    def __init__(self, name: str, file: GgufFile) -> None:
        self.name = name
        self._stored = hub_tensors(file)
        self._said: set[str] = set()
        self.shapes = {name: tensor.shape for name, tensor in self._stored.items()}

    def blocks(self, name: str, shape: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        for first, raw in self._raw_blocks(name, shape):
            yield first, torch.from_numpy(affine.dequantise(raw, self._stored[name].type_.name))

    def stored_bits(self, name: str) -> int:
        return affine.code_bits(self._stored[name].type_.name)

    def quantised_blocks(
        self, name: str, shape: Sequence[int], bits: int, device: torch.device
    ) -> Iterator[tuple[int, PackedWeight]]:
        """See `TensorReader`. Logs if the codes of a type are quantised again."""
        kind = self._stored[name].type_.name
        is_rounded = bits != self.stored_bits(name) or affine.is_requantised(kind)
        if affine.is_requantised(kind) and kind not in self._said:
            self._said.add(kind)
            log.info("%s: its %s weights are rounded to %d bits", self.name, kind, bits)
        if is_rounded:
            yield from super().quantised_blocks(name, shape, bits, device)
            return
        for first, raw in self._raw_blocks(name, shape):
            codes, scales, biases = map(torch.from_numpy, affine.affine_rows(raw, kind))
            yield first, PackedWeight.of_codes(codes, scales, biases, bits)

    def _raw_blocks(self, name: str, shape: Sequence[int]) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        self.require_tensor(name, shape)
        tensor = self._stored[name]
        row_bytes = _row_bytes(tensor)
        rows, matrix_rows = prod(tensor.shape[:-1]), prod(tensor.shape[1:-1])
        step = max(1, _UNPACKED_WEIGHTS // (tensor.shape[-1] * matrix_rows)) * matrix_rows  # an expert is never cut
        for first in range(0, rows, step):
            begin, end = (tensor.begin + row * row_bytes for row in (first, min(rows, first + step)))
            with open_file(tensor.path) as stream:
                raw = read_bytes(stream, begin, end)
            yield first, np.frombuffer(raw, np.uint8).reshape(-1, row_bytes)

    def in_file(self, name: str) -> "StoredRows":
        """A matrix that stays in the file, to look up rows in."""
        return StoredRows(self._stored[name])


class StoredRows:
    """A matrix (O, I) that is read from its open file row by row: an embedding, since a pass needs few of its rows."""

    def __init__(self, tensor: GgufTensor) -> None:
        """Raises ModelError."""
        self._tensor = tensor
        self._stream = open_file(tensor.path)

    def rows(self, numbers: Tensor) -> Tensor:
        """(n,) -> these rows, float32 (n, I). Raises ModelError."""
        row_bytes = _row_bytes(self._tensor)
        row_offsets = (self._tensor.begin + row * row_bytes for row in numbers.tolist())
        raw = b"".join(read_bytes(self._stream, begin, begin + row_bytes) for begin in row_offsets)
        return torch.from_numpy(
            affine.dequantise(np.frombuffer(raw, np.uint8).reshape(-1, row_bytes), self._tensor.type_.name)
        )


def _metadata(source: str, parts: dict[str, Tensor]) -> dict[str, str]:
    """Says whose weights these are, with sums that tell whether they are whole."""
    metadata = {"source": source}
    for part, value in parts.items():
        numbers = value.flatten().view(torch.int16 if value.nbytes % 8 else torch.int64)
        metadata[part] = f"{value.dtype}, {list(value.shape)}, {int(numbers.sum(dtype=torch.int64))}"
    return metadata


def open_tensors(checkpoint: Checkpoint) -> TensorReader:
    return GgufReader(checkpoint.name, checkpoint.gguf) if checkpoint.gguf else SafetensorsReader(checkpoint)


def _row_bytes(tensor: GgufTensor) -> int:
    return tensor.shape[-1] // tensor.type_.block_size * tensor.type_.block_bytes
