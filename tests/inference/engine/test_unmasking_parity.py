"""The loop gives the same tokens as the published samplers of masked-diffusion models, pins included.

The samplers are one plain function each, as their papers and code describe them, written independently of the engine:
one sequence, all of it run again at each step by transformers' own Qwen2, plain Python numbers where the originals have
vectors. Temperature 0. In all of them `bias` (n, V), added to the logits, forbids the mask token, which the originals
may write and leave standing; that is the one difference.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.engine.canvas.batch import FORBIDDEN_BIAS, CanvasBatch, Constraint
from inference.engine.canvas.layout import OPEN_ID, ComposedCanvas
from inference.engine.denoising.denoise import NoiseSource
from inference.engine.denoising.unmask import ResizeRules, UnmaskingDenoiser
from inference.models.family import ModelAdapter
from inference.models.infill_config import SamplerSettings
from tests.inference.models import random_masked
from tests.inference.models.exact_masked import load_exact
from tests.inference.models.random_masked import EOS, EXPAND, MASK, VOCABULARY_SIZE, random_qwen2, stock_logits

DREAM_END = 1e-3
ALGORITHMS = {"entropy": "entropy", "confidence": "maskgit_plus"}
NO_MASK = torch.zeros(VOCABULARY_SIZE).index_fill(0, torch.tensor([MASK]), FORBIDDEN_BIAS)
PREFIX = tuple((7 * number) % 200 for number in range(11))
ROWS = {
    "one hole": ComposedCanvas((*(OPEN_ID,) * 9, 33, 44, 55), ((0, 0, 9),)),
    "three holes": ComposedCanvas(
        (3, *(OPEN_ID,) * 4, 90, OPEN_ID, 91, 92, *(OPEN_ID,) * 4, 60), ((1, 1, 5), (6, 6, 7), (9, 9, 13))
    ),
}


def sure(row: torch.Tensor, algorithm: str, top_p: float = 1.0) -> float:
    if top_p < 1.0:
        ordered, order = row.sort(descending=True)
        total = ordered.softmax(-1).cumsum(-1)
        row = row.clone()
        row[order[1:][total[:-1] > top_p]] = torch.finfo(row.dtype).min
    chances = row.softmax(-1)
    if algorithm == "entropy":
        return float((chances * torch.log(chances + 1e-10)).sum())
    return float(chances.max())


def surest(rows: dict[int, float], count: int) -> list[int]:
    return sorted(rows, key=lambda place: (-rows[place], place))[:count]


def dream(
    model: Any, ids: Sequence[int], mask: int, bias: torch.Tensor, algorithm: str, steps: int, top_p: float = 1.0
) -> list[int]:
    """Dream's `_sample` and Open-dLLM's `_mdm_sample`: `maskgit_plus` and `entropy`."""
    ids = list(ids)
    times = torch.linspace(1, DREAM_END, steps + 1)
    for step in range(steps):
        masked = [place for place, id_ in enumerate(ids) if id_ == mask]
        count = len(masked)
        if step < steps - 1:
            count = int(torch.tensor(len(masked), dtype=torch.float32) * (1 - times[step + 1] / times[step]))
        if count == 0:
            continue
        logits = stock_logits(model, ids, shifted=True) + bias
        for place in surest({place: sure(logits[place], algorithm, top_p) for place in masked}, count):
            ids[place] = int(logits[place].argmax())
    return ids


def mdlm(model: Any, ids: Sequence[int], mask: int, bias: torch.Tensor, steps: int) -> list[int]:
    """MDLM's `infill` with the whole sequence as one block: how many at each step is settled beforehand."""
    ids = list(ids)
    left = ids.count(mask)
    counts = []
    for step in range(steps):
        before, after = (torch.tensor((steps - at) / steps, dtype=torch.float32) for at in (step, step + 1))
        share = 1 - (1 - (1 - after)) / (1 - (1 - before))
        counts.append(round(float(torch.tensor(float(left)) * share)))
        left -= counts[-1]
    for count in filter(None, counts):
        logits = stock_logits(model, ids, shifted=False) + bias
        masked = {place: sure(logits[place], "low_confidence") for place, id_ in enumerate(ids) if id_ == mask}
        for place in surest(masked, count):
            ids[place] = int(logits[place].argmax())
    return ids


@torch.inference_mode()
def dreamon(
    model: Any,
    ids: Sequence[int],
    mask: int,
    bias: torch.Tensor,
    algorithm: str,
    *,
    expand: int,
    delete: int,
    most_masks: int,
    budget: int,
    top_p: float = 1.0,
) -> tuple[list[int], list[str]]:
    """DreamOn for one hole, `bias` (V,): expands below `most_masks` rows, `budget` times; and what happened."""
    ids, happened = list(ids), []
    rest = len(ids) - ids.count(mask)
    while mask in ids:
        logits = stock_logits(model, ids, shifted=True) + bias
        if len(ids) - rest == most_masks or happened.count("expand") == budget:
            logits[:, expand] -= 1e9
        masked = {place: sure(logits[place], algorithm, top_p) for place, id_ in enumerate(ids) if id_ == mask}
        (place,) = surest(masked, 1)
        token = int(logits[place].argmax())
        happened.append("expand" if token == expand else "delete" if token == delete else "write")
        ids[place : place + 1] = {expand: [mask, mask], delete: []}.get(token, [token])
    return ids, happened


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelAdapter, Any]:
    return made(tmp_path_factory.mktemp("dream"), random_masked.save_dream)


@pytest.fixture(scope="module")
def in_place(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelAdapter, Any]:
    return made(tmp_path_factory.mktemp("mdlm"), random_masked.save_mdlm)


def made(folder: Path, save: Any) -> tuple[ModelAdapter, Any]:
    save(folder)
    return load_exact(folder), random_qwen2()


def ours(
    family: ModelAdapter,
    row: ComposedCanvas,
    settings: SamplerSettings,
    resizing: ResizeRules | None = None,
    bias: torch.Tensor = NO_MASK,
) -> tuple[list[int], int]:
    """The tokens of our loop behind the prefix, and the forward passes it took."""
    context, canvas = family.open_prefix(PREFIX), CanvasBatch.from_canvases([row], family.device)
    constraint = Constraint(bias[None], torch.zeros(len(canvas.hole_rows), dtype=torch.long))
    noise = NoiseSource(VOCABULARY_SIZE, torch.Generator(), MASK)
    loop = UnmaskingDenoiser(context, canvas, settings, noise, constraint=constraint, resizing=resizing)
    while not loop.is_finished:
        loop.step()
    return loop.prediction_ids[0].tolist(), loop.step_number


def whole(row: ComposedCanvas) -> list[int]:
    return [*PREFIX, *(MASK if id_ == OPEN_ID else id_ for id_ in row.ids)]


def plain(method: str, steps: int, **other: Any) -> SamplerSettings:
    return SamplerSettings(max_steps=steps, method=method, t_max=0.0, t_min=0.0, **other)  # type: ignore[arg-type]


def behind(ids: Sequence[int]) -> list[int]:
    return list(ids[len(PREFIX) :])


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("steps", [4, 64])
@pytest.mark.parametrize("method", ALGORITHMS)
def test_dream_and_open_dllm(shifted: tuple[ModelAdapter, Any], method: str, steps: int, row: str) -> None:
    family, model = shifted
    wanted = dream(model, whole(ROWS[row]), MASK, NO_MASK, ALGORITHMS[method], steps)
    tokens, passes = ours(family, ROWS[row], plain(method, steps))
    assert tokens == behind(wanted)
    assert passes <= min(steps, 9), "steps that write nothing cost nothing"


@pytest.mark.parametrize("top_p", [0.3, 0.9])
@pytest.mark.parametrize("method", ALGORITHMS)
def test_the_order_is_that_of_what_top_p_leaves(shifted: tuple[ModelAdapter, Any], method: str, top_p: float) -> None:
    family, model = shifted
    row = ROWS["three holes"]
    wanted = dream(model, whole(row), MASK, NO_MASK, ALGORITHMS[method], 16, top_p)
    assert ours(family, row, plain(method, 16, top_p=top_p))[0] == behind(wanted)


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("steps", [3, 128])
def test_mdlm_in_place(in_place: tuple[ModelAdapter, Any], steps: int, row: str) -> None:
    family, model = in_place
    wanted = mdlm(model, whole(ROWS[row]), MASK, NO_MASK, steps)
    assert ours(family, ROWS[row], plain("confidence", steps, schedule="rounded"))[0] == behind(wanted)


@pytest.mark.parametrize("method", ALGORITHMS)
@pytest.mark.parametrize(("liking", "top_p"), [(0.0, 1.0), (6.0, 0.9), (12.0, 1.0)], ids=["as is", "some", "more"])
def test_dreamon_resizes(shifted: tuple[ModelAdapter, Any], method: str, liking: float, top_p: float) -> None:
    """`liking` is added to both tokens, which random weights would seldom write."""
    family, model = shifted
    row = ComposedCanvas((*(OPEN_ID,) * 9, 33, 44, EOS), ((0, 0, 9),))
    bias = NO_MASK.clone()
    bias[[EXPAND, EOS]] = liking
    limits = {"expand": EXPAND, "delete": EOS, "most_masks": 12, "budget": 24, "top_p": top_p}
    wanted, happened = dreamon(model, whole(row), MASK, bias, ALGORITHMS[method], **limits)
    resizing = ResizeRules(EXPAND, EOS, ((0, 12),), budget=24)
    settings = plain(method, 300, schedule="single", top_p=top_p)
    tokens, passes = ours(family, row, settings, resizing, bias)
    assert tokens == behind(wanted)
    assert passes == len(happened)
    assert not liking or {"expand", "delete"} & set(happened), "else this says nothing"
    assert wanted[-3:] == [33, 44, EOS], "the end of the file stays"
