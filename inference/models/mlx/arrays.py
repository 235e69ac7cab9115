"""Torch tensors and MLX arrays of the same numbers, and keys and values as MLX arrays.

On Apple silicon both libraries use the same memory, so a tensor of an array is a view; an array of a tensor is a copy.
"""

import mlx.core as mx
import numpy as np
import torch
from torch import Tensor


def tensor_of(array: mx.array) -> Tensor:
    """The array, computed, as a tensor in the CPU's memory; a view of the same numbers."""
    if array.dtype == mx.bfloat16:  # NumPy has no such numbers: they cross as their bits
        return torch.from_numpy(np.asarray(array.view(mx.uint16))).view(torch.bfloat16)
    return torch.from_numpy(np.asarray(array))


def array_of(tensor: Tensor) -> mx.array:
    """A copy of a tensor as an array."""
    if tensor.dtype == torch.bfloat16:
        return mx.array(tensor.contiguous().view(torch.uint16).numpy()).view(mx.bfloat16)
    return mx.array(tensor.numpy())


class MlxRows:
    """`Rows` that are MLX arrays. An array that shares its buffer with another is copied when it is written."""

    def empty(self, like: mx.array, count: int) -> mx.array:
        """See `Rows`."""
        return mx.zeros((*like.shape[:2], count, like.shape[3]), like.dtype)

    def repeated(self, rows: mx.array, batch: int) -> mx.array:
        """See `Rows`."""
        return mx.broadcast_to(rows, (batch, *rows.shape[1:]))

    def joined(self, first: mx.array, second: mx.array) -> mx.array:
        """See `Rows`."""
        return mx.concatenate([first, second], axis=2)

    def chosen(self, rows: mx.array, numbers: Tensor) -> mx.array:
        """See `Rows`."""
        return mx.take(rows, array_of(numbers), axis=0)
