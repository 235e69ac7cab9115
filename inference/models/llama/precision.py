"""Chooses the format of a model's weights: the user's choice, otherwise the fastest on this machine.

That is 8 bits, except on processors with fast bfloat16 and without `Int8DynamicLinear`. Predicts the latency of
suggestions from small matrix products. They are measured once for each processor and release of torch, in the processor
time of one thread, since other programs may be running.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import msgspec
import torch

from inference.models import devices, edit_prompts, machine_cache
from inference.models.devices import DTYPES, EIGHT_BIT, FOUR_BIT
from inference.models.llama import linear
from inference.models.llama.linear import (
    DenseLinear,
    Int8DynamicLinear,
    Int8Weight,
    Int8WeightOnlyLinear,
    Linear,
    quantise_rows,
)

_ON_CPU = (EIGHT_BIT, "bfloat16", "float32")
_ELSEWHERE = ("bfloat16", "float16", "float32")
_PROMPT_ROWS = 256
_NEW_PLACE, _NEW_LINE = (530, 2.5), (48, 4.2)
_NEXT_KEY = {False: (4, 2.2), True: (4, 1.5)}
"""The mean cost of an automatic text in `bench passes`: rows of the prompt and of verified drafts, and decoding passes.
A model with more than `SMALL_PARAMETERS` confirms more of its earlier text after a key.
"""
SMALL_PARAMETERS = 1e9
_REST, _REST_ON_GPU = 1.15, 1.3
"""A pass takes this many times as long as its products; on a CPU, the small operations are counted apart."""
_SMALL_PER_PASS, _SMALL_PER_ROW = 1e9, 2e7
"""On one thread the small operations take as long as the product of a row with this many weights."""
_PROMPT_TOKENS_PER_PASS = 8
"""Computed for Apple's GPUs: M1 has 2.6 TFLOPS and reads 68 GB/s, M3 Max 14 and 400."""
_SHAPE, _COPIES = (3072, 1024), 4
"""The shape and number of the measured matrices, which together are larger than most caches."""


class KernelTimes(msgspec.Struct, frozen=True):
    """The nanoseconds of one thread per weight in the usual format: in a product of one row, and per row of many."""

    one_row_ns: float
    prompt_row_ns: float


def candidate_formats(device: torch.device, requested: str | None, own: str = "") -> list[str]:
    """Only the requested format, or those to try, best first. `own`: `packed_dtype` of the weights, which CUDA keeps.

    Raises ModelError.
    """
    if device.type == "cuda":
        usual = [own] if own else ["bfloat16", EIGHT_BIT]
        return devices.allowed_dtypes(device.type, requested, usual, (*_ELSEWHERE, EIGHT_BIT, FOUR_BIT))
    if device.type != "cpu":
        return devices.allowed_dtypes(device.type, requested, _ELSEWHERE[:1], _ELSEWHERE)
    usual = ["bfloat16", EIGHT_BIT] if devices.cpu_has_fast_bf16() else [EIGHT_BIT, "float32"]
    usual = [EIGHT_BIT] if linear.has_dynamic_int8() else usual
    return devices.allowed_dtypes(device.type, requested, usual, _ON_CPU)


def formats_for_many_rows(device: torch.device, requested: str | None, own: str = "") -> list[str]:
    """`candidate_formats` for models whose passes have hundreds of rows. Raises ModelError.

    Without matrix units for bfloat16 a CPU is fastest in float32, then in 8 bits.
    """
    if requested or device.type != "cpu":
        return candidate_formats(device, requested, own)
    return ["bfloat16", "float32", EIGHT_BIT] if devices.cpu_has_fast_bf16() else ["float32", EIGHT_BIT, "bfloat16"]


class PassTimes(msgspec.Struct, frozen=True):
    """The times of a model on this machine: of a pass that decodes a token, and of a prompt token."""

    pass_ms: float
    prompt_token_ms: float


@dataclass(frozen=True)
class LatencyEstimate:
    """The estimated time of ghost text at a new place, on a new line and after a keystroke, and of a rewrite."""

    new_place_s: float
    new_line_s: float
    next_key_s: float
    rewrite_s: float

    @classmethod
    def from_pass_times(cls, times: PassTimes, parameters: float) -> "LatencyEstimate":
        cases = (_NEW_PLACE, _NEW_LINE, _NEXT_KEY[parameters > SMALL_PARAMETERS], edit_prompts.USUAL_REWRITE)
        return cls(*((tokens * times.prompt_token_ms + passes * times.pass_ms) / 1000 for tokens, passes in cases))


def pass_times_key(model: str, gpu: str = "") -> str:
    """The key under which the times of a model are saved: they depend on the number of threads, or on the GPU."""
    return f"{model}, {gpu or f'{torch.get_num_threads()} threads'}"


def best_pass_times(name: str) -> PassTimes | None:
    """The shortest times of a model on this machine, by its `pass_times_key`; None if it has not run."""
    return machine_cache.read("passes", PassTimes).get(name)


def save_pass_times(name: str, times: PassTimes) -> None:
    """Saves the times if they are shorter than before, as other programs may slow them; nothing if one is 0."""
    previous = best_pass_times(name) or times
    shortest = PassTimes(min(previous.pass_ms, times.pass_ms), min(previous.prompt_token_ms, times.prompt_token_ms))
    if shortest.pass_ms and shortest.prompt_token_ms:
        machine_cache.save("passes", machine_cache.read("passes", PassTimes) | {name: shortest})


def estimate_pass_times(weights: float, of_layers: float, reads_bytes_per_s: float) -> PassTimes:
    """Estimates the times of a model that has not run here: a pass reads `weights`, a prompt those `of_layers`."""
    benchmark, threads = cpu_kernel_times(), torch.get_num_threads()
    dtype = candidate_formats(torch.device("cpu"), None)[0]
    size = 1 if dtype == EIGHT_BIT else DTYPES[dtype].itemsize
    pass_ms = max(weights * benchmark.one_row_ns / 1e6 / threads, 1000 * weights * size / reads_bytes_per_s)
    row_ms = of_layers * benchmark.prompt_row_ns / 1e6 / threads
    small_ms = [item * benchmark.one_row_ns / 1e6 for item in (_SMALL_PER_PASS, _SMALL_PER_ROW)]
    return PassTimes(_REST * pass_ms + small_ms[0], _REST * row_ms + small_ms[1])


def estimate_gpu_pass_times(read_bytes: float, reads_bytes_per_s: float) -> PassTimes:
    """Estimates the times on a GPU with shared memory: a pass reads the weights once, for many prompt tokens."""
    pass_ms = 1000 * _REST_ON_GPU * read_bytes / reads_bytes_per_s
    return PassTimes(pass_ms, pass_ms / _PROMPT_TOKENS_PER_PASS)


@cache
def cpu_kernel_times() -> KernelTimes:
    """The kernel times of this machine, measured now or by an earlier process."""
    instructions = sorted(name for name, has in torch.cpu.get_capabilities().items() if has is True)
    name = torch.cpu.get_capabilities().get("cpu_name", "")
    method = "fbgemm" if linear.has_dynamic_int8() else "weights alone, usual format"
    key = f"{name}, torch {torch.__version__}, {method}, one thread, {' '.join(instructions)}"
    cached = machine_cache.read("speed", KernelTimes)
    benchmark = cached.get(key)
    if benchmark is None or not benchmark.one_row_ns:  # a coarse clock may have told no time
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            benchmark = measure_kernels(
                candidate_formats(torch.device("cpu"), None)[0], dynamic=linear.has_dynamic_int8()
            )
        finally:
            torch.set_num_threads(threads)
        machine_cache.save("speed", {**cached, key: benchmark})
    return benchmark


@torch.inference_mode()
def measure_kernels(dtype: str, *, dynamic: bool) -> KernelTimes:
    """Measures a format in this thread; `dynamic`: 8 bits with `Int8DynamicLinear`."""
    torch.manual_seed(0)
    matrices = [torch.randn(_SHAPE) for _ in range(_COPIES)]
    measured: Sequence[Linear] = [DenseLinear(matrix.to(DTYPES.get(dtype, torch.float32))) for matrix in matrices]
    if dtype == EIGHT_BIT:
        packed = [Int8Weight(*quantise_rows(matrix)) for matrix in matrices]
        buffer = linear.dequant_buffer()
        measured = [Int8DynamicLinear(matrix) if dynamic else Int8WeightOnlyLinear(matrix, buffer) for matrix in packed]
    one_ns, prompt_ns = (_seconds(measured, rows) * 1e9 / prod(_SHAPE) for rows in (1, _PROMPT_ROWS))
    return KernelTimes(one_ns, prompt_ns / _PROMPT_ROWS)


def _seconds(measured: Sequence[Linear], rows: int) -> float:
    """The mean time of a product, over all matrices, or with the first alone if that takes long."""
    inputs = torch.randn(rows, measured[0].shape[1])
    used = measured if rows < _PROMPT_ROWS else measured[:1]
    times = []
    for _ in range(3):
        began = time.thread_time()
        for linear_layer in used:
            linear_layer(inputs)
        times.append(time.thread_time() - began)
    return min(times) / len(used)
