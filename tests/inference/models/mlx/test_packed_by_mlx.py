"""Checkpoints packed by MLX, as published for Macs: they load unchanged, and fill."""

from pathlib import Path

import pytest

from inference.engine.engine import Engine
from inference.models import registry
from inference.models.family import ModelError
from tests.inference.models.mlx.test_parity import TASKS, filled


@pytest.fixture(scope="module")
def packed(packed_folder: Path) -> Engine:
    """No device is named: nothing but MLX reads it."""
    return Engine(registry.load_model(str(packed_folder)))


def test_it_runs_by_itself_in_the_bits_that_it_has(packed: Engine) -> None:
    assert (packed.device, packed.dtype) == ("mlx:cpu", "4bit")


@pytest.mark.parametrize("task", ["a line", "two holes"])
def test_it_fills(packed: Engine, task: str) -> None:
    candidates = filled(packed, *TASKS[task]).candidates
    assert candidates
    assert all(one.complete and any(one.texts) for one in candidates)


def test_packed_predictions_stay_close(packed: Engine, on_mlx: Engine) -> None:
    texts = [f"{task} {number}" for number in range(3) for task in TASKS]
    ids = [on_mlx.loaded.adapter.tokenizer.encode(text).ids for text in texts]
    sums = []
    for engine in (packed, on_mlx):
        context = engine.loaded.adapter.open_prefix([2])
        for _ in context.prefill():
            pass
        sums.append([float(each.mean()) for each in context.log_probabilities(ids)])
        context.close()
    assert sums[0] == pytest.approx(sums[1], abs=0.5)
    assert sums[0] != sums[1]


def test_another_dtype_than_its_own_is_refused(packed_folder: Path) -> None:
    with pytest.raises(ModelError, match=r"packed in 4 bits; choose 4bit"):
        registry.load_model(str(packed_folder), device="mlx", dtype="bfloat16")


def test_torch_does_not_try_to_read_it(packed_folder: Path) -> None:
    with pytest.raises(ModelError, match=r"MLX has packed its weights.*infill-ls\[mlx\]"):
        registry.load_model(str(packed_folder), device="cpu")
