"""Chooses the device and the precision that a model is computed in, and checks that it fits there."""

import psutil
import torch

from inference.models.checkpoint import Checkpoint
from inference.models.family import ModelError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_HEADROOM = 1.15
"""Weights need this much more memory than they take, for the activations of the smallest request."""


def choose_device(wanted: str | None) -> torch.device:
    """The device to run on: the wanted one, else CUDA, else Apple's, else the CPU. Raises ModelError."""
    if wanted is None:
        wanted = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    advice = "give cpu, cuda or mps, or leave it out to use the best one"
    try:
        device = torch.device(wanted)
    except RuntimeError as error:  # its message lists two dozen devices, most of them unknown to users
        raise ModelError(f"device '{wanted}' does not exist; {advice}") from error
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device '{wanted}' cannot be used here: {str(error).splitlines()[0]}; {advice}") from error
    return device


def choose_dtype(wanted: str | None, device: torch.device) -> torch.dtype:
    """The dtype to compute in: the wanted one, else float32 on a CPU and bfloat16 elsewhere. Raises ModelError."""
    if wanted is None:
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if wanted not in DTYPES:
        raise ModelError(f"dtype '{wanted}' is unknown; choose one of {', '.join(DTYPES)}")
    return DTYPES[wanted]


def free_bytes(device: torch.device) -> int:
    """How much memory a model could take on this device right now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def check_fits(checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype) -> None:
    """Raises ModelError where the weights of a checkpoint, converted to `dtype`, do not fit on the device."""
    stored = checkpoint.config.get("dtype") or checkpoint.config.get("torch_dtype") or "bfloat16"
    scale = dtype.itemsize / DTYPES.get(stored, torch.bfloat16).itemsize
    needed, free = int(checkpoint.weight_bytes * scale * _HEADROOM), free_bytes(device)
    if needed > free:
        raise ModelError(
            f"{checkpoint.name} needs {needed / 1e9:.1f} GB in {str(dtype).removeprefix('torch.')}, but {device} has "
            f"{free / 1e9:.1f} GB free; use a smaller dtype, another device, or the embedded model"
        )
