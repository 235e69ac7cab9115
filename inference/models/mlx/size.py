"""The memory of a checkpoint's weights in MLX, from their headers alone."""

from math import prod

from inference.models import checkpoint_files
from inference.models.checkpoint import Checkpoint
from inference.models.checkpoint_files import StoredTensor
from inference.models.devices import FOUR_BIT, PRECISIONS
from inference.models.diffusion_gemma.mlx_format import packing_of

GROUP, BITS, DENSE_BITS = 64, 4, 8
"""The choice of MLX's tools: 4 bits for the experts, 8 for everything else."""
_SCALE_BYTES = 4 / GROUP
"""The overhead per number: its part of its group's scale and bias."""
_PLAIN_BYTES = 2
_UNUSED = ("vision", "lm_head")


def weight_bytes(found: Checkpoint, dtype: str) -> float:
    """The memory of the weights in a dtype; for already packed ones, their size in the files."""
    tensors = checkpoint_files.stored_tensors(found.folder).items()
    used = [(name, tensor) for name, tensor in tensors if not any(part in name for part in _UNUSED)]
    if packing_of(found) is not None:
        return float(sum(tensor.end - tensor.begin for _, tensor in used))
    if dtype != FOUR_BIT:
        return float(sum(prod(tensor.shape) for _, tensor in used) * PRECISIONS[dtype].dtype.itemsize)
    return sum(_four_bit_bytes(name, tensor) for name, tensor in used)


def _four_bit_bytes(name: str, tensor: StoredTensor) -> float:
    numbers = prod(tensor.shape)
    if len(tensor.shape) < 2 or tensor.shape[-1] % GROUP:
        return numbers * _PLAIN_BYTES
    bits = BITS if ".experts." in name else DENSE_BITS
    return numbers * (bits / 8 + _SCALE_BYTES)
