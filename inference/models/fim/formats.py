"""Chooses the format of a model's weights: the user's choice, otherwise the fastest on this machine.

AVX512-BF16 or AMX multiply bfloat16 several times as fast as float32, other processors many times slower. So it
measures small products, once for each processor and release of torch, in the processor time of one thread: other
programs may run beside it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import msgspec
import torch

from inference.models import kept
from inference.models.devices import EIGHT_BIT, PRECISIONS, Precision
from inference.models.family import ModelError
from inference.models.fim.matrices import Matrix, Packed, Plain, Unpacking, packed_rows

_ON_CPU = (EIGHT_BIT, "bfloat16", "float32")
_ELSEWHERE = ("bfloat16", "float16", "float32")
_PROMPT_ROWS, _LINE_PASSES = 256, 12
"""A line costs about this many new prompt rows, and this many passes of few rows."""
_FEW = (4, 8, 12, 16)
"""The least of them always takes the way of a single row: a pass that checks guesses must round as one without them."""
_SHAPE, _COPIES = (3072, 1024), 4
"""Of the measured matrices, which together are larger than most caches."""
_WORTH_MEMORY = 0.75
"""A format that takes two or four times the memory of 8 bits must cost at most this share of their time."""


class Speed(msgspec.Struct, frozen=True):
    """The measurement: the formats, fastest first; the format that 8 bits unpack to, and above how many rows."""

    formats: tuple[str, ...]
    unpacked: str
    few: int


def candidates(device: torch.device, wanted: str | None) -> list[Precision]:
    """Only the requested format, or those to try, best first. Raises ModelError. 8 bits unpack to their `dtype`."""
    on_cpu = device.type == "cpu"
    known = _ON_CPU if on_cpu else _ELSEWHERE
    if wanted is not None and wanted not in known:
        raise ModelError(
            f"dtype '{wanted}' does not run a model that fills the middle on {device.type}; choose one of "
            f"{', '.join(known)}"
        )
    if not on_cpu:
        return [PRECISIONS[wanted or known[0]]]
    found = speed()
    chosen = [PRECISIONS[name] for name in ((wanted,) if wanted else found.formats)]
    unpacked = PRECISIONS[found.unpacked].dtype
    return [replace(each, dtype=unpacked) if each.name == EIGHT_BIT else each for each in chosen]


@cache
def speed() -> Speed:
    """The measurement for this machine, perhaps from an earlier process."""
    able = sorted(name for name, has in torch.cpu.get_capabilities().items() if has is True)
    name = torch.cpu.get_capabilities().get("cpu_name", "")
    key = f"{name}, torch {torch.__version__}, one thread, {' '.join(able)}"
    known = kept.read("speed", Speed)
    found = known.get(key)
    if found is None or {*found.formats} != {*_ON_CPU} or found.unpacked not in PRECISIONS or found.few < _FEW[0]:
        with _one_thread():
            found = measured()
        kept.save("speed", {**known, key: found})
    return found


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@torch.inference_mode()
def measured() -> Speed:
    """Measures now, in this thread."""
    torch.manual_seed(0)
    plain = [torch.randn(_SHAPE) for _ in range(_COPIES)]
    packed = [packed_rows(each) for each in plain]

    def eight_bit(dtype: torch.dtype, few: int) -> list[Matrix]:
        unpacking = Unpacking(dtype, few)
        return [Packed(weight, scales, unpacking) for weight, scales in packed]

    def kept(dtype: torch.dtype) -> list[Matrix]:
        return [Plain(each.to(dtype)) for each in plain]

    halves, wholes = kept(torch.bfloat16), kept(torch.float32)
    kernel = eight_bit(torch.float32, _PROMPT_ROWS)
    many = {"bfloat16": eight_bit(torch.bfloat16, 0), "float32": eight_bit(torch.float32, 0)}
    prompt = {name: _seconds(each, _PROMPT_ROWS) for name, each in many.items()}
    unpacked = min(prompt, key=lambda name: prompt[name])
    costs = {
        EIGHT_BIT: _WORTH_MEMORY * (prompt[unpacked] + _LINE_PASSES * _seconds(kernel, 1)),
        "bfloat16": _seconds(halves, _PROMPT_ROWS) + _LINE_PASSES * _seconds(halves, 1),
        "float32": _seconds(wholes, _PROMPT_ROWS) + _LINE_PASSES * _seconds(wholes, 1),
    }
    few = [rows for rows in _FEW if _seconds(kernel, rows) < _seconds(many[unpacked], rows)]
    return Speed(tuple(sorted(costs, key=lambda name: costs[name])), unpacked, max(few, default=_FEW[0]))


def _seconds(matrices: list[Matrix], rows: int) -> float:
    """The thread's time for a product with each of the matrices; if that takes long, with the first alone."""
    given = torch.randn(rows, matrices[0].shape[1])
    used = matrices if rows < _PROMPT_ROWS else matrices[:1]
    return min(_taken(lambda: [each(given) for each in used]) for _ in range(3)) / len(used)


def _taken(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began
