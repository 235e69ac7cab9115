"""Chooses a model's device and precision, and checks that it fits there."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import psutil
import torch

from inference.models.checkpoint_files import first_error_line
from inference.models.family import ModelError

log = logging.getLogger(__name__)

FOUR_BIT = "4bit"
EIGHT_BIT = "8bit"
_HEADROOM = 1.15
"""Weights need this much more memory than their size, for the activations of the smallest request."""


DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    EIGHT_BIT: torch.bfloat16,
    FOUR_BIT: torch.bfloat16,
}
"""The torch dtype of computation by the `dtype` setting; for packed weights, the dtype after dequantising them."""


def choose_device(named: str | None) -> torch.device:
    """The device to run on: the requested one, otherwise CUDA or the CPU. Raises ModelError."""
    if named is None:
        named = "cuda" if torch.cuda.is_available() else "cpu"
    advice = "give cpu, cuda, mps or mlx, or leave it out to use the best one"
    try:
        device = torch.device(named)
    except RuntimeError as error:  # its message lists two dozen devices, most of them unknown to users
        raise ModelError(f"device '{named}' does not exist; {advice}") from error
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device '{named}' cannot be used here: {str(error).splitlines()[0]}; {advice}") from error
    if device.type == "cuda":  # cuDNN compiles attention for each new length: 60 ms per token on an H200
        torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def allowed_dtypes(device: str, requested: str | None, usual: Sequence[str], others: Iterable[str]) -> list[str]:
    """Only the requested dtype, or the usual ones. Raises ModelError if the requested one is neither among these nor
    the `others`.
    """
    if requested is None:
        return [*usual]
    choices = dict.fromkeys([*usual, *others])
    if requested in choices:
        return [requested]
    advice = f"leave it out to use {usual[0]}, or choose one of {', '.join(choices)}"
    raise ModelError(f"dtype '{requested}' does not run a model of this kind on {device}; {advice}")


def cpu_has_fast_bf16() -> bool:
    """Whether this CPU has matrix units for bfloat16. With vector instructions alone, bfloat16 beats float32 only for a
    few rows of a large model, where reading the weights takes longest.
    """
    capabilities = torch.cpu.get_capabilities()
    return any(capabilities.get(name) for name in ("amx_bf16", "bf16"))


@cache
def measure_memory_bandwidth() -> float:
    """How fast this CPU reads its memory, in bytes per second: the best of three reads of 128 MB, 50 ms in all."""
    numbers = torch.ones(1 << 25)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        numbers.sum()
        times.append(time.perf_counter() - began)
    return numbers.nbytes / min(times)


def free_bytes(device: torch.device) -> int:
    """How much memory a model could take on this device right now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def needed_bytes(weight_bytes: float) -> int:
    """How much memory weights of this size need, including the smallest request."""
    return int(weight_bytes * _HEADROOM)


def choose_fitting_dtype(
    name: str, device: torch.device | str, free: int, dtypes: Sequence[str], weight_bytes: Callable[[str], float]
) -> str:
    """The first of `dtypes` in which the weights fit into `free` bytes. Raises ModelError if none does."""
    needs = dict[str, int]()
    for dtype in dtypes:  # lazily, since a model may not support a later one
        needs[dtype] = needed_bytes(weight_bytes(dtype))
        if needs[dtype] <= free:
            return dtype
    needed = " or ".join(f"{count / 1e9:.1f} GB in {dtype}" for dtype, count in needs.items())
    raise ModelError(
        f"{name} needs {needed}, but {device} has {free / 1e9:.1f} GB free; use a smaller dtype, another device, or "
        "the embedded model"
    )


def use_triton_kernels(layers: Iterable[Any], *attention: torch.Tensor) -> str:
    """Makes these layers use the Triton kernels if those work and are correct; otherwise returns why not.

    `attention`: queries (n, H, D) and keys (G, T, D) to try its kernel with.
    """
    try:
        from inference.models import triton_kernels  # not every system has Triton

        triton_kernels.use_triton_kernels(layers, *attention)
    except Exception as error:  # a device may refuse
        note = f"it is slower without kernels in Triton, which are not used: {first_error_line(error)}"
        log.warning("%s", note)
        return note
    return ""
