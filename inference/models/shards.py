"""The tensors of a checkpoint's safetensors files, read one at a time, so that they never stand in memory together."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from inference.models import checkpoint_files
from inference.models.checkpoint import Checkpoint
from inference.models.family import ModelError


class Shards:
    """What the files of a checkpoint hold, by name. Each access opens a file and closes it: nothing stays mapped."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Reads the headers alone. Raises ModelError where one cannot be read."""
        self.checkpoint = checkpoint
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._files: dict[str, Path] = {}
        for file in checkpoint_files.weight_files(checkpoint.folder):
            for name, tensor in checkpoint_files.header(file).items():
                self.shapes[name], self._files[name] = tensor.shape, file

    def tensor(self, name: str, shape: Sequence[int], device: torch.device, dtype: torch.dtype) -> Tensor:
        """A copy of a tensor. Raises ModelError where it is missing, of another shape or unreadable."""
        with self._opened(name, shape) as opened:
            return opened.get_tensor(name).to(device, dtype, copy=True)  # type: ignore[no-any-return]

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
