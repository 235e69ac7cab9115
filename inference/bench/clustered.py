"""Means over tasks with standard errors that account for files: tasks from one file resemble each other.

Errors are those of a mean over clusters (files), from the residuals summed within each. Counting tasks as independent
would understate them.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple


class Estimate(NamedTuple):
    """A mean and its standard error; the error is 0 for a single file."""

    value: float
    error: float


def mean(values: Sequence[float], files: Sequence[str]) -> Estimate:
    """The mean of some tasks' values; `files` gives each task's file."""
    return ratio(values, [1.0] * len(values), files)


def ratio(values: Sequence[float], others: Sequence[float], files: Sequence[str]) -> Estimate:
    """The sum of `values` as a share of that of `others`, task by task; 0 if the latter is nothing."""
    total = sum(others)
    if not total:
        return Estimate(0.0, 0.0)
    share = sum(values) / total
    residuals = defaultdict[str, float](float)
    for value, other, file in zip(values, others, files, strict=True):
        residuals[file] += value - share * other
    count = len(residuals)
    error = math.sqrt(sum(each**2 for each in residuals.values()) * count / max(1, count - 1)) / total
    return Estimate(round(share, 4), round(error if count > 1 else 0.0, 4))
