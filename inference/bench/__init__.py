"""The benchmarks behind `infill-ls bench`, described in README.md. Each prints one JSON object as its last line."""

import argparse
import math
import statistics
from collections.abc import Sequence

from inference.serving.startup import spin_briefly

spin_briefly()  # as in the worker


def positive(value: str) -> int:
    """An argument: a number of 1 or more. Raises argparse.ArgumentTypeError."""
    if not value.isdecimal() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"'{value}' is not a number of 1 or more")
    return int(value)


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """The median of at least one value, and the 95th percentile, rounded to microseconds where they are ms."""
    ordered = sorted(values)
    return {"p50": round(statistics.median(ordered), 3), "p95": round(ordered[math.ceil(0.95 * len(ordered)) - 1], 3)}
