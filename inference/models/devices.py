"""Chooses a model's device and precision, and checks that it fits there."""

import logging
import sys
import time
from collections.abc import Callable, Collection, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import psutil
import torch

from inference import install_hints
from inference.models.family import ModelError

FOUR_BIT = "4bit"
EIGHT_BIT = "8bit"
INSTALL_FOUR_BIT = install_hints.format_command(install_hints.install_command("4bit"))
_TALKER = "bitsandbytes.backends.cpu.ops"
_HEADROOM = 1.15
"""Weights need this much more memory than their size, for the activations of the smallest request."""


DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    EIGHT_BIT: torch.bfloat16,
    FOUR_BIT: torch.bfloat16,
}
"""The format of the computation, by the name that a user gives as `dtype`; in 4 bits, also of unpacked experts."""

_BY_ITSELF = {"cpu": ("float32", "bfloat16", FOUR_BIT), "cuda": ("bfloat16", FOUR_BIT)}
"""The dtypes to try on each device if none is named; the first that fits wins."""


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


def candidate_dtypes(device: torch.device, named: str | None) -> list[str]:
    """Only the requested dtype, or all that this device allows, best first. Raises ModelError."""
    usual = _BY_ITSELF.get(device.type, ("bfloat16",))
    if named is None:
        return [*usual]
    if named not in DTYPES:
        raise ModelError(f"dtype '{named}' is unknown; choose one of {', '.join(DTYPES)}")
    if named == FOUR_BIT and FOUR_BIT not in usual:
        raise ModelError(f"dtype '{named}' does not run on {device.type}; choose bfloat16, or device cuda or cpu")
    if named == FOUR_BIT and not has_bitsandbytes():
        raise ModelError(f"dtype '{named}' needs the package bitsandbytes, which is missing; run: {INSTALL_FOUR_BIT}")
    return [named]


def cpu_has_fast_bf16() -> bool:
    """Whether this CPU has matrix units for bfloat16. With vector instructions alone, bfloat16 beats float32 only for a
    few rows of a large model, where reading the weights takes longest.
    """
    able = torch.cpu.get_capabilities()
    return any(able.get(name) for name in ("amx_bf16", "bf16"))


@cache
def measure_memory_bandwidth() -> float:
    """How fast this processor reads its memory now: the best of three reads of 128 MB, which take 50 ms in all."""
    held = torch.ones(1 << 25)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        held.sum()
        times.append(time.perf_counter() - began)
    return held.nbytes / min(times)


def has_bitsandbytes() -> bool:
    return find_spec("bitsandbytes") is not None


@cache
def import_bitsandbytes() -> Any:
    """bitsandbytes, kept from fetching code from a hub. Raises ModelError if it cannot be imported."""
    previous = sys.modules.get("kernels")
    sys.modules["kernels"] = None  # type: ignore[assignment]
    logging.getLogger(_TALKER).setLevel(logging.ERROR)
    try:
        import bitsandbytes
        import bitsandbytes.nn.parametrize
    except Exception as error:  # it loads libraries that may be built for another machine
        raise ModelError(f"dtype '4bit' needs the package bitsandbytes, which cannot be imported: {error}") from error
    finally:
        if previous is None:
            del sys.modules["kernels"]
        else:
            sys.modules["kernels"] = previous
    return bitsandbytes


def free_bytes(device: torch.device) -> int:
    """How much memory a model could take on this device right now."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def needed_bytes(weight_bytes: float) -> int:
    """How much memory weights of this size need, including the smallest request."""
    return int(weight_bytes * _HEADROOM)


def choose_fitting_dtype(
    name: str,
    device: torch.device | str,
    free: int,
    dtypes: Sequence[str],
    weight_bytes: Callable[[str], float],
    *,
    bitsandbytes: Collection[str] = (FOUR_BIT,),
) -> str:
    """The first dtype that fits into `free` bytes; those of `bitsandbytes` need that package. Raises ModelError if none
    does.
    """
    needs = {dtype: needed_bytes(weight_bytes(dtype)) for dtype in dtypes}
    small = [dtype for dtype, needed in needs.items() if needed <= free]
    able = [dtype for dtype in small if dtype not in bitsandbytes or has_bitsandbytes()]
    if able:
        return able[0]
    needed = " or ".join(f"{count / 1e9:.1f} GB in {dtype}" for dtype, count in needs.items())
    advice = "use a smaller dtype, another device, or the embedded model"
    if small:
        advice = f"{FOUR_BIT} would fit, but needs the package bitsandbytes: {INSTALL_FOUR_BIT}"
    raise ModelError(f"{name} needs {needed}, but {device} has {free / 1e9:.1f} GB free; {advice}")
