"""Whether MLX is installed here, and its device.

Imports MLX only to ask it, and no other large library.
"""

import logging
from dataclasses import dataclass
from importlib.util import find_spec

import psutil

from inference import install_hints
from inference.models.family import ModelError

DEVICE, GPU = "mlx", "Apple GPU"
_WORKING_SET = 0.75
"""The share of the memory that a GPU may use, if MLX does not say."""
_CACHED_BYTES = 1 << 30
"""How much unused memory MLX may cache; passes of each width need other buffers."""
DTYPES_BY_GPU = {True: ("bfloat16", "float32", "float16"), False: ("float32",)}
"""The plain dtypes, with and without a GPU, the usual one first. On a CPU MLX multiplies experts in float32 alone."""


@dataclass(frozen=True)
class MlxDeviceInfo:
    """The device that MLX computes on here, and its memory."""

    on_gpu: bool
    total_bytes: int
    free_bytes: int

    @property
    def name(self) -> str:
        return GPU if self.on_gpu else f"{DEVICE}:cpu"


def is_installed(*, with_vlm: bool) -> bool:
    """`with_vlm`: also mlx-vlm, which has DiffusionGemma's layers."""
    return all(find_spec(package) is not None for package in ("mlx", "mlx_vlm")[: 1 + with_vlm])


def is_default(*, with_vlm: bool) -> bool:
    """Whether MLX computes where no device is named: on Apple silicon with its GPU, unless it is missing or broken."""
    if not (install_hints.is_apple_silicon() and is_installed(with_vlm=with_vlm)):
        return False
    try:
        return require_mlx_device(with_vlm=with_vlm).on_gpu  # a virtual machine may have none; there torch is faster
    except ModelError as error:
        logging.getLogger(__name__).warning("%s; the processor computes instead", error)
        return False


def unusable_error(reason: object, *, with_vlm: bool) -> ModelError:
    """The error that also says how to install what `is_installed` looks for, or what to do if that is broken."""
    command = install_hints.format_command(install_hints.install_command("mlx-vlm" if with_vlm else "mlx"))
    advice = "update the system or install mlx afresh" if is_installed(with_vlm=with_vlm) else f"run: {command}"
    return ModelError(f"device '{DEVICE}' cannot be used here: {reason}; {advice}")


def require_mlx_device(*, with_vlm: bool = False) -> MlxDeviceInfo:
    """MLX's device here. Raises ModelError if it is unusable; `with_vlm`: see `is_installed`."""
    if not is_installed(with_vlm=with_vlm):
        needs = "packages mlx and mlx-vlm, and not both are here" if with_vlm else "package mlx, which is missing"
        raise unusable_error(f"it needs the {needs}", with_vlm=with_vlm)
    try:
        import mlx.core as mx
    except (ImportError, OSError) as error:  # built for another machine, or for a newer system
        raise unusable_error(error, with_vlm=with_vlm) from error
    memory = psutil.virtual_memory()
    if not mx.is_available(mx.gpu):
        return MlxDeviceInfo(False, memory.total, memory.available)
    total = int(mx.device_info(mx.gpu).get("max_recommended_working_set_size", memory.total * _WORKING_SET))
    return MlxDeviceInfo(True, total, max(0, min(total - mx.get_active_memory(), memory.available)))


def configure_mlx(device: MlxDeviceInfo) -> None:
    """Configures MLX for a model that stays loaded."""
    import mlx.core as mx

    if device.on_gpu:
        mx.set_wired_limit(device.total_bytes)  # keep weights in memory that were not used for a while
        mx.set_cache_limit(_CACHED_BYTES)
    else:
        mx.disable_compile()  # on a CPU it calls a C++ compiler, which may be missing
