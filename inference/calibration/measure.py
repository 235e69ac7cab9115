"""Measures how sure a model is of holes of each length, and whether that tells the right one."""

import math
import statistics
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import torch

from inference.calibration.code_holes import CodeHole
from inference.engine import Engine
from inference.engine.canvas.plan import Planner
from inference.engine.search import length, length_probe, sampler
from inference.messages import Hole, InfillRequest, Text
from inference.models.family import LengthBias


@dataclass(frozen=True)
class Measured:
    """One hole: how sure the model is at each length, and how long the true text is."""

    lengths: tuple[int, ...]
    confidences: tuple[float, ...]
    true: int


@dataclass(frozen=True)
class Choices:
    """How far, as a factor, the chosen lengths are from the true ones, at the median, by ways to choose."""

    calibrated: float
    uncalibrated: float
    usual: float


def measured(engine: Engine, holes: Sequence[CodeHole], seed: int) -> Iterator[Measured]:
    """Each hole, measured; holes that fit on no canvas are left out. Each `next` makes two passes or more."""
    for number, hole in enumerate(holes):
        yield _measured(engine, hole, seed + number)


def _measured(engine: Engine, hole: CodeHole, seed: int) -> Measured:
    model = engine.loaded
    segments = (Text(hole.before), Hole(single_line=True), Text(hole.after))
    planner = Planner(model.vocabulary, model.properties, InfillRequest("calibration", segments))
    plan = planner.plan(planner.group_from(0), [])
    (slots,) = plan.layout.holes
    healed = hole.before.encode()[len(hole.before.encode()) - slots.skip :].decode()
    true = max(1, len(model.vocabulary.encode(healed + hole.solution)) - len(slots.forced))
    noise = sampler.noise_of(
        model.family.traits, model.properties, torch.Generator(model.family.device).manual_seed(seed)
    )
    choices = length.from_grid((slots,), length_probe.LENGTHS)
    with closing(model.family.open(plan.prefix_ids)) as context:
        for _ in context.encode():
            pass
        sure = length_probe.confidences(model, context, plan, noise, choices)
    return Measured(tuple(size for (size,) in choices), tuple(sure), true)


def bias(found: Sequence[Measured]) -> LengthBias:
    """The mean confidence of each length, over all holes."""
    by_length: dict[int, list[float]] = {}
    for one in found:
        for size, sure in zip(one.lengths, one.confidences, strict=True):
            by_length.setdefault(size, []).append(sure)
    sizes = sorted(by_length)
    return LengthBias(tuple(sizes), tuple(max(1e-6, min(1.0, statistics.fmean(by_length[size]))) for size in sizes))


def choices(found: Sequence[Measured], known: LengthBias) -> Choices:
    """How well lengths are chosen for these holes, with and without the bias, and by the usual length for all."""
    usual = statistics.median(one.true for one in found)

    def off(size: float, one: Measured) -> float:
        return math.exp(abs(math.log(size / one.true)))

    def surest(one: Measured, biased: bool) -> int:
        parts = zip(one.lengths, one.confidences, strict=True)
        return max(parts, key=lambda part: part[1] / (known.at(part[0]) if biased else 1.0))[0]

    return Choices(
        statistics.median(off(surest(one, True), one) for one in found),
        statistics.median(off(surest(one, False), one) for one in found),
        statistics.median(off(usual, one) for one in found),
    )
