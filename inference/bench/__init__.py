"""The benchmarks behind `infill-ls bench`, described in README.md, and their shared helpers. Each is a module with
`add_arguments(parser)` and `measure(args)`, which returns its figures.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from inference.serving.startup import limit_spinning

if TYPE_CHECKING:  # it imports torch
    from inference.engine.engine import Engine

limit_spinning()  # as in the worker


class BenchError(Exception):
    """A benchmark cannot run, or would not measure what it should. str() tells the user why."""


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER", help="the model (default: embedded)")
    parser.add_argument("--device", metavar="NAME", help="where to compute (default: the best device found)")
    parser.add_argument("--dtype", metavar="NAME", help="what to compute in (default: the best found)")


def load_warm_engine(args: argparse.Namespace) -> "Engine":
    """The engine with the model of the flags. Raises ModelError."""
    from inference.engine.engine import Engine
    from inference.models import registry

    engine = Engine(registry.load_model(args.model, device=args.device, dtype=args.dtype))
    engine.warm_up()  # otherwise the first request's time would include one-time setup
    return engine


def positive_int(value: str) -> int:
    """An argument: a number of 1 or more. Raises argparse.ArgumentTypeError."""
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"'{value}' is not a number of 1 or more")
    return int(value)


def measure_ms(work: Callable[[], object], repeats: int, wait: Callable[[], None] = lambda: None) -> list[float]:
    """How long `work` takes each time, with what it queues on a device, which `wait` waits for."""
    times = []
    for _ in range(repeats):
        wait()
        began = time.perf_counter()
        work()
        wait()
        times.append((time.perf_counter() - began) * 1000)
    return times


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """The median of at least one value, and the 95th percentile, rounded to microseconds where they are ms."""
    ordered = sorted(values)
    return {"p50": round(statistics.median(ordered), 3), "p95": round(ordered[math.ceil(0.95 * len(ordered)) - 1], 3)}
