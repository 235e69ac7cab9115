"""The limits of a pass through a network: time, memory, and the bytes it must read."""

import statistics
import time
from collections.abc import Callable

import psutil
import torch

from inference.models.diffusion_gemma.network import Network

_WARM_UPS = 1


def milliseconds(work: Callable[[], object], device: torch.device, repeats: int = 5) -> float:
    """The median time of `work` after a warm-up, including its queued work on the device."""
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
    """Waits until the device has finished everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def peak_bytes(device: torch.device) -> int:
    """The peak of torch's allocations on CUDA; elsewhere the resident size of the process now."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return int(psutil.Process().memory_info().rss)


def bandwidth_bytes_per_s(device: torch.device, size_bytes: int = 2 << 30) -> float:
    """The memory bandwidth of a large copy, counting bytes read and bytes written."""
    source = torch.empty(size_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size_bytes / (milliseconds(lambda: target.copy_(source), device) / 1000)


def step_bytes(network: Network, rows: int) -> int:
    """How many bytes of weights one decoder pass over `rows` canvas rows must read: all but the unused experts.

    A row chooses k of E experts, so `rows` random rows use a share of 1 - (1 - k/E)^rows of the experts. The embedding
    is read whole once, as lm_head; the encoder's weights are the decoder's.
    """
    config = network.model.config.text_config
    used = 1 - (1 - config.top_k_experts / config.num_experts) ** rows
    total = 0.0
    for name, parameter in network.model.model.decoder.named_parameters():
        share = used if ".experts." in name else 1.0
        total += share * parameter.numel() * parameter.element_size()
    return int(total)
