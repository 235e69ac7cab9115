"""Whether MLX is installed here, its device, and the memory of a checkpoint's weights there, from their headers alone.

Imports MLX only to ask it.
"""

import re
from dataclasses import dataclass
from math import prod

import psutil

from inference.models import checkpoint_files
from inference.models.checkpoint import Checkpoint
from inference.models.checkpoint_files import StoredTensor
from inference.models.devices import FOUR_BIT, PRECISIONS
from inference.models.diffusion_gemma.config import packing_of
from inference.models.family import ModelError
from inference.models.mlx.installed import DEVICE, INSTALL, is_installed

_WORKING_SET = 0.75
"""Which part of the memory a GPU may use, if MLX does not say."""
_DTYPES = {True: ("bfloat16", FOUR_BIT, "float32", "float16"), False: ("float32", FOUR_BIT)}
"""The dtypes, with and without a GPU. MLX multiplies the experts of a CPU only in float32."""
_BY_ITSELF = 2
"""Try this many of them if no dtype is named."""
GROUP, BITS, DENSE_BITS = 64, 4, 8
"""The choice of MLX's tools: 4 bits for the experts, 8 for everything else."""
_SCALE_BYTES = 4 / GROUP
"""The overhead per number: its part of its group's scale and bias."""
_PLAIN_BYTES = 2
_UNUSED = ("vision", "lm_head")
_BITS_OF = re.compile(r"\d+")
"""How many bits a number has, in the name of its dtype: U32, BF16, F8_E4M3."""


@dataclass(frozen=True)
class MlxDevice:
    """MLX's device: Apple's GPU, or the CPU."""

    on_gpu: bool
    total_bytes: int
    free_bytes: int

    @property
    def name(self) -> str:
        """Its name for users."""
        return f"{DEVICE}:{'gpu' if self.on_gpu else 'cpu'}"

    def dtypes(self, found: Checkpoint, wanted: str | None) -> tuple[str, ...]:
        """Only the requested dtype, or all to try, best first. Packed weights have one. Raises ModelError."""
        packing = packing_of(found)
        able = (f"{packing.bits}bit",) if packing else _DTYPES[self.on_gpu]
        if wanted is None:
            return able[:_BY_ITSELF]
        if wanted in able:
            return (wanted,)
        why = f", whose weights are packed in {packing.bits} bits" if packing else ""
        raise ModelError(
            f"dtype '{wanted}' does not run on {self.name} for {found.name}{why}; choose {' or '.join(able)}"
        )


def look() -> MlxDevice:
    """MLX's device here. Raises ModelError if it is unusable."""
    if not is_installed():
        raise ModelError(f"device '{DEVICE}' needs the packages mlx and mlx-vlm, which are missing; {INSTALL}")
    try:
        import mlx.core as mx
    except (ImportError, OSError) as error:  # built for another machine, or for a newer system
        raise ModelError(f"device '{DEVICE}' cannot be used here: {error}; {INSTALL}") from error
    memory = psutil.virtual_memory()
    if not mx.is_available(mx.gpu):
        return MlxDevice(False, memory.total, memory.available)
    total = int(mx.device_info(mx.gpu).get("max_recommended_working_set_size", memory.total * _WORKING_SET))
    return MlxDevice(True, total, max(0, min(total - mx.get_active_memory(), memory.available)))


def weight_bytes(found: Checkpoint, dtype: str) -> float:
    """The memory of the weights in a dtype; for already packed ones, their size in the files."""
    tensors = checkpoint_files.stored_tensors(found.folder).items()
    used = [(name, tensor) for name, tensor in tensors if not any(part in name for part in _UNUSED)]
    if packing_of(found) is not None:
        return sum(prod(tensor.shape) * int(_BITS_OF.findall(tensor.dtype)[0]) / 8 for _, tensor in used)
    if dtype != FOUR_BIT:
        return float(sum(prod(tensor.shape) for _, tensor in used) * PRECISIONS[dtype].dtype.itemsize)
    return sum(_four_bit_bytes(name, tensor) for name, tensor in used)


def _four_bit_bytes(name: str, tensor: StoredTensor) -> float:
    numbers = prod(tensor.shape)
    if len(tensor.shape) < 2 or tensor.shape[-1] % GROUP:
        return numbers * _PLAIN_BYTES
    bits = BITS if ".experts." in name else DENSE_BITS
    return numbers * (bits / 8 + _SCALE_BYTES)
