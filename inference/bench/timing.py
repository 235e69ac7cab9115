"""How long something takes, on whatever device it runs."""

import statistics
import time
from collections.abc import Callable

import psutil
import torch

_WARM_UPS = 1


def milliseconds(work: Callable[[], object], device: torch.device, repeats: int = 5) -> float:
    """The median time of `work` after a warm-up, everything it queued on the device included."""
    for _ in range(_WARM_UPS):
        work()
    times = []
    for _ in range(repeats):
        wait(device)
        began = time.perf_counter()
        work()
        wait(device)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def wait(device: torch.device) -> None:
    """Until the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def peak_bytes(device: torch.device) -> int:
    """The most memory held so far: on CUDA what torch allocated, else the resident size of the process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return int(psutil.Process().memory_info().rss)


def bandwidth_bytes_per_s(device: torch.device, size_bytes: int = 2 << 30) -> float:
    """Measured memory bandwidth of a large copy, bytes read and written counted."""
    source = torch.empty(size_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size_bytes / (milliseconds(lambda: target.copy_(source), device) / 1000)
