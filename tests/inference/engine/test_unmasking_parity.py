"""The loop gives the same tokens as the published samplers of masked-diffusion models, pins included."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.engine.canvas.batch import FORBIDDEN, CanvasBatch, Constraint
from inference.engine.canvas.layout import OPEN, Row
from inference.engine.search.denoise import Noise
from inference.engine.search.unmask import Resizing, Unmasking
from inference.models.family import Family
from inference.models.properties import SamplerSettings
from tests.inference.engine import masked_references as references
from tests.inference.models import random_masked
from tests.inference.models.exact_masked import load_exact
from tests.inference.models.random_masked import EOS, EXPAND, MASK, VOCABULARY_SIZE, random_qwen2

ALGORITHMS = {"entropy": "entropy", "confidence": "maskgit_plus"}
NO_MASK = torch.zeros(VOCABULARY_SIZE).index_fill(0, torch.tensor([MASK]), FORBIDDEN)
PREFIX = tuple((7 * number) % 200 for number in range(11))
ROWS = {
    "one hole": Row((*(OPEN,) * 9, 33, 44, 55), ((0, 0, 9),)),
    "three holes": Row((3, *(OPEN,) * 4, 90, OPEN, 91, 92, *(OPEN,) * 4, 60), ((1, 1, 5), (6, 6, 7), (9, 9, 13))),
}


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Family, Any]:
    return made(tmp_path_factory.mktemp("dream"), random_masked.save_dream)


@pytest.fixture(scope="module")
def in_place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Family, Any]:
    return made(tmp_path_factory.mktemp("mdlm"), random_masked.save_mdlm)


def made(folder: Path, save: Any) -> tuple[Family, Any]:
    save(folder)
    return load_exact(folder), random_qwen2()


def ours(
    family: Family, row: Row, settings: SamplerSettings, resizing: Resizing | None = None, bias: torch.Tensor = NO_MASK
) -> tuple[list[int], int]:
    """The tokens of our loop behind the prefix, and the forward passes it took."""
    context, canvas = family.open(PREFIX), CanvasBatch.of([row], family.device)
    constraint = Constraint(bias[None], torch.zeros(len(canvas.hole_rows), dtype=torch.long))
    noise = Noise(VOCABULARY_SIZE, torch.Generator(), MASK)
    loop = Unmasking(context, canvas, settings, noise, constraint=constraint, resizing=resizing)
    while not loop.finished:
        loop.step()
    return loop.answer[0].tolist(), loop.step_number


def whole(row: Row) -> list[int]:
    return [*PREFIX, *(MASK if id_ == OPEN else id_ for id_ in row.ids)]


def plain(method: str, steps: int, **other: Any) -> SamplerSettings:
    return SamplerSettings(max_steps=steps, method=method, t_max=0.0, t_min=0.0, **other)  # type: ignore[arg-type]


def behind(ids: Sequence[int]) -> list[int]:
    return list(ids[len(PREFIX) :])


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("steps", [4, 64])
@pytest.mark.parametrize("method", ALGORITHMS)
def test_dream_and_open_dllm(shifted: tuple[Family, Any], method: str, steps: int, row: str) -> None:
    family, model = shifted
    wanted = references.dream(model, whole(ROWS[row]), MASK, NO_MASK, ALGORITHMS[method], steps)
    tokens, passes = ours(family, ROWS[row], plain(method, steps))
    assert tokens == behind(wanted)
    assert passes <= min(steps, 9), "steps that write nothing cost nothing"


@pytest.mark.parametrize("top_p", [0.3, 0.9])
@pytest.mark.parametrize("method", ALGORITHMS)
def test_the_order_is_that_of_what_top_p_leaves(shifted: tuple[Family, Any], method: str, top_p: float) -> None:
    family, model = shifted
    row = ROWS["three holes"]
    wanted = references.dream(model, whole(row), MASK, NO_MASK, ALGORITHMS[method], 16, top_p)
    assert ours(family, row, plain(method, 16, top_p=top_p))[0] == behind(wanted)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("steps", [3, 128])
def test_mdlm_in_place(in_place: tuple[Family, Any], steps: int, row: str) -> None:
    family, model = in_place
    wanted = references.mdlm(model, whole(ROWS[row]), MASK, NO_MASK, steps)
    assert ours(family, ROWS[row], plain("confidence", steps, schedule="rounded"))[0] == behind(wanted)


@pytest.mark.parametrize("method", ALGORITHMS)
@pytest.mark.parametrize(("liking", "top_p"), [(0.0, 1.0), (6.0, 0.9), (12.0, 1.0)], ids=["as is", "some", "more"])
def test_dreamon_resizes(shifted: tuple[Family, Any], method: str, liking: float, top_p: float) -> None:
    """`liking` is added to both tokens, which random weights would seldom write."""
    family, model = shifted
    row = Row((*(OPEN,) * 9, 33, 44, EOS), ((0, 0, 9),))
    bias = NO_MASK.clone()
    bias[[EXPAND, EOS]] = liking
    limits = {"expand": EXPAND, "delete": EOS, "most_masks": 12, "budget": 24, "top_p": top_p}
    wanted, happened = references.dreamon(model, whole(row), MASK, bias, ALGORITHMS[method], **limits)
    resizing = Resizing(EXPAND, EOS, ((0, 12),), budget=24)
    settings = plain(method, 300, schedule="single", top_p=top_p)
    tokens, passes = ours(family, row, settings, resizing, bias)
    assert tokens == behind(wanted)
    assert passes == len(happened)
    assert not liking or {"expand", "delete"} & set(happened), "else this says nothing"
    assert wanted[-3:] == [33, 44, EOS], "the end of the file stays"
