"""The training report of a step, and the interface of an objective."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class Losses:
    """Means in nats: `hole` as trained, `text` over hidden text rows alone, `causal` over text read from the left.

    NaN if there are no such rows.
    """

    hole: float
    text: float
    causal: float


class TrainingInputs(Protocol):
    """The data drawn for a step, on its device."""

    @property
    def row_count(self) -> int:
        """Rows that go through the network."""


class Objective(Protocol):
    """The losses of one model."""

    def inputs(self, drawn: Any) -> Any:
        """Turns a feed's draw into tensors: `TrainingInputs` for `loss`."""

    def loss(self, inputs: Any, *, conditioned: bool) -> tuple[Tensor, Losses]:
        """The loss to minimise, and its report. `conditioned`: a first pass conditions the trained one."""


def mean(losses: Sequence[Losses]) -> Losses:
    """The mean of each loss, over the steps that have it."""
    return Losses(*(_mean([getattr(one, name) for one in losses]) for name in ("hole", "text", "causal")))


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if value == value]
    return float(np.mean(known)) if known else float("nan")
