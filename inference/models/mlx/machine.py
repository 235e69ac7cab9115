"""Whether MLX is installed here, its device, and the memory of a checkpoint's weights there, from their headers alone.

Imports MLX only to ask it, and no other large library.
"""

import platform
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod

import psutil

from inference.models import checkpoint_files, extras
from inference.models.checkpoint import Checkpoint
from inference.models.diffusion_gemma.config import packing_of
from inference.models.family import ModelError

DEVICE = "mlx"
"""The name by which a user asks for it."""
INSTALL = f"install them: {extras.shown(extras.install('mlx'))}"
_WORKING_SET = 0.75
"""Which part of the memory a GPU may use, if MLX does not say."""
_DTYPES = {True: ("bfloat16", "float32", "float16"), False: ("float32",)}
"""The dtypes, with and without a GPU, the usual one first. MLX multiplies the experts of a CPU only in float32."""
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_UNUSED = ("vision", "lm_head")
_BITS_OF = re.compile(r"\d+")
"""How many bits a number has, in the name of its dtype: U32, BF16, F8_E4M3."""


@dataclass(frozen=True)
class MlxDevice:
    on_gpu: bool
    total_bytes: int
    free_bytes: int

    @property
    def name(self) -> str:
        return f"{DEVICE}:{'gpu' if self.on_gpu else 'cpu'}"

    def dtype(self, found: Checkpoint, wanted: str | None) -> str:
        """The requested dtype, or the usual one. Packed weights have one. Raises ModelError."""
        packing = packing_of(found)
        able = (f"{packing.bits}bit",) if packing else _DTYPES[self.on_gpu]
        if wanted is None or wanted in able:
            return wanted or able[0]
        why = f", whose weights are packed in {packing.bits} bits" if packing else ""
        raise ModelError(
            f"dtype '{wanted}' does not run on {self.name} for {found.name}{why}; choose {' or '.join(able)}"
        )


def is_installed() -> bool:
    return all(find_spec(package) is not None for package in ("mlx", "mlx_vlm"))


def is_apple_silicon() -> bool:
    return sys.platform == "darwin" and platform.machine() == "arm64"


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
    used = [tensor for name, tensor in tensors if not any(part in name for part in _UNUSED)]
    if packing_of(found) is not None:
        return sum(prod(tensor.shape) * int(_BITS_OF.findall(tensor.dtype)[0]) / 8 for tensor in used)
    return float(sum(prod(tensor.shape) for tensor in used) * _BYTES[dtype])
