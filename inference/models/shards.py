"""The tensors of a checkpoint, read one at a time, so that they never stand in memory together."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, Final, Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from inference.models import checkpoint_files
from inference.models.checkpoint import Checkpoint
from inference.models.family import ModelError

_BLOCK_WEIGHTS: Final = 1 << 22
"""About so many weights of a tensor are read at a time."""


class Weights(Protocol):
    """What a checkpoint holds, by the hub's names, in whichever format."""

    @property
    def name(self) -> str:
        """What the user calls the model."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor."""

    def tensor(self, name: str, shape: Sequence[int], device: torch.device, dtype: torch.dtype) -> Tensor:
        """A tensor in another dtype. Raises ModelError where it is missing, of another shape or unreadable."""

    def rows(self, name: str, shape: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        """The rows of a tensor, some megabytes at a time: the number of the first, and (n, columns) on the CPU.

        In the dtype that is stored, or float32 where that is packed. Valid until the next is asked for. Raises
        ModelError.
        """


def opened(checkpoint: Checkpoint) -> Weights:
    """The weights of a checkpoint. Raises ModelError where they cannot be read."""
    if not checkpoint.gguf:
        return Shards(checkpoint)
    from inference.models.gguf.weights import GgufWeights

    return GgufWeights(checkpoint.name, checkpoint.gguf)


class Shards:
    """What safetensors files hold, by name. Each access opens a file and closes it: nothing stays mapped."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Reads the headers alone. Raises ModelError where one cannot be read."""
        self.checkpoint, self.name = checkpoint, checkpoint.name
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._files: dict[str, Path] = {}
        for file in checkpoint_files.weight_files(checkpoint.folder):
            for name, tensor in checkpoint_files.header(file).items():
                self.shapes[name], self._files[name] = tensor.shape, file

    def tensor(self, name: str, shape: Sequence[int], device: torch.device, dtype: torch.dtype) -> Tensor:
        """A copy of a tensor. Raises ModelError where it is missing, of another shape or unreadable."""
        with self._opened(name, shape) as opened:
            return opened.get_tensor(name).to(device, dtype, copy=True)  # type: ignore[no-any-return]

    def rows(self, name: str, shape: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
        """See `Weights`."""
        step = max(1, _BLOCK_WEIGHTS // prod(shape[1:]))
        for first in range(0, shape[0], step):
            with self._opened(name, shape) as opened:
                yield first, opened.get_slice(name)[first : first + step].view(-1, shape[-1])

    def pieces(self, name: str, shape: Sequence[int]) -> Iterator[Tensor]:
        """Each (1, ...) slice along the first dimension, valid until the next is asked for. Raises ModelError."""
        for number in range(shape[0]):
            with self._opened(name, shape) as opened:
                yield opened.get_slice(name)[number : number + 1]

    @contextmanager
    def _opened(self, name: str, shape: Sequence[int]) -> Iterator[Any]:
        found = self.shapes.get(name)
        if found != tuple(shape):
            what = "missing" if found is None else f"of shape {list(found)}, not {list(shape)}"
            raise ModelError(f"{self.checkpoint.name}: the weight {name} is {what}; download the checkpoint again")
        try:
            with safe_open(self._files[name], "pt") as opened:
                yield opened
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{self.checkpoint.name}: {self._files[name]} cannot be loaded: {error}") from error

    def elements(self, name: str) -> int:
        """How many numbers a tensor has."""
        return prod(self.shapes[name])
