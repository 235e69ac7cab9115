"""The benchmarks behind `infill-ls bench`, described in README.md. Each prints one JSON object as its last line."""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import httpx2

from inference.engine.errors import RequestError
from inference.models.family import ModelError
from inference.models.printable import say
from inference.serving.startup import spin_briefly

if TYPE_CHECKING:  # it imports torch
    from inference.engine import Engine

spin_briefly()  # as in the worker


class BenchError(Exception):
    """A benchmark cannot be run, or measures something else than it should; str() says why, for the user."""


def command(name: str, about: str | None) -> argparse.ArgumentParser:
    """The parser of a benchmark without its own flags."""
    prog = f"infill-ls bench {name}"
    return argparse.ArgumentParser(prog, description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def add_model(parser: argparse.ArgumentParser) -> None:
    """Adds the flags for a model."""
    parser.add_argument("--model", default="embedded", metavar="ID_OR_FOLDER", help="the model (default: embedded)")
    parser.add_argument("--device", metavar="NAME", help="where to compute (default: the best device found)")
    parser.add_argument("--dtype", metavar="NAME", help="what to compute in (default: the best found)")


def run(
    parser: argparse.ArgumentParser,
    measure: Callable[[argparse.Namespace], Mapping[str, Any]],
    argv: Sequence[str] | None,
) -> int:
    """Prints what is measured by the flags as one JSON object; returns the exit status, 2 if it cannot be measured."""
    args = parser.parse_args(argv)
    try:
        print(json.dumps(measure(args)))
    except (BenchError, ModelError, RequestError, OSError, ValueError, httpx2.HTTPError) as error:
        say(error)
        return 2
    return 0


def loaded(args: argparse.Namespace) -> "Engine":
    """The engine with the model of the flags. Raises ModelError."""
    from inference.engine import Engine
    from inference.models import registry

    engine = Engine(registry.load(args.model, device=args.device, dtype=args.dtype))
    engine.warm_up()  # otherwise the first request's time would include one-time setup
    return engine


def positive(value: str) -> int:
    """An argument: a number of 1 or more. Raises argparse.ArgumentTypeError."""
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"'{value}' is not a number of 1 or more")
    return int(value)


def times_ms(work: Callable[[], object], repeats: int, wait: Callable[[], None] = lambda: None) -> list[float]:
    """How long `work` takes each time, with what it queues on a device, which `wait` waits for."""
    found = []
    for _ in range(repeats):
        wait()
        began = time.perf_counter()
        work()
        wait()
        found.append((time.perf_counter() - began) * 1000)
    return found


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """The median of at least one value, and the 95th percentile, rounded to microseconds where they are ms."""
    ordered = sorted(values)
    return {"p50": round(statistics.median(ordered), 3), "p95": round(ordered[math.ceil(0.95 * len(ordered)) - 1], 3)}
