"""Means and their confidence intervals by a bootstrap over documents. Pure."""

import random
import statistics
from collections.abc import Iterable
from typing import Any

RESAMPLES = 2000
SEED = 20
"""Fixed, so that the same records give the same report."""


def mean_with_interval(values: Iterable[tuple[int, float]], digits: int = 4) -> dict[str, Any] | None:
    """The mean of `values`, each with the number of its document, and its 95 % interval; None where there are none.

    Requests of one document are alike, so whole documents are drawn: as many as there are, with replacement, from the
    list in order of first appearance, `RESAMPLES` times. With one document there is no interval.
    """
    sums: dict[int, float] = {}
    counts: dict[int, int] = {}
    for document, value in values:
        sums[document] = sums.get(document, 0.0) + value
        counts[document] = counts.get(document, 0) + 1
    if not sums:
        return None
    low, high = _interval(list(sums.values()), list(counts.values()))
    mean = sum(sums.values()) / sum(counts.values())
    return {
        "mean": round(mean, digits),
        "low": None if low is None else round(low, digits),
        "high": None if high is None else round(high, digits),
        "documents": len(sums),
    }


def _interval(sums: list[float], counts: list[int]) -> tuple[float | None, float | None]:
    if len(sums) < 2:
        return None, None
    chance, documents = random.Random(SEED), range(len(sums))  # noqa: S311 - no secret
    means = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(documents, k=len(documents))
        means.append(sum(map(sums.__getitem__, drawn)) / sum(map(counts.__getitem__, drawn)))
    cuts = statistics.quantiles(means, n=40, method="inclusive")
    return cuts[0], cuts[-1]
