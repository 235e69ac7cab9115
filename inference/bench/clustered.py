"""Means over tasks with standard errors that know of files: tasks out of one file resemble each other.

Errors are those of a mean over clusters (files), by the residuals summed within each. Taken task by task they would be
too small.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple


class Estimate(NamedTuple):
    """A mean and its standard error; an error of 0 where there is but one file."""

    value: float
    error: float


def mean(values: Sequence[float], files: Sequence[str]) -> Estimate:
    """The mean of some tasks' values; `files` says where each task is from."""
    return ratio(values, [1.0] * len(values), files)


def ratio(values: Sequence[float], others: Sequence[float], files: Sequence[str]) -> Estimate:
    """The sum of `values` as a share of that of `others`, task by task; 0 where those are nothing."""
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
