"""DiffusionGemma from a GGUF file through MLX, which keeps the file's bits: torch's predictions with those weights."""

from collections import deque
from contextlib import closing
from pathlib import Path

import pytest
import torch

from inference.engine.engine import Engine
from inference.models import registry
from inference.models.family import ModelError
from tests.inference.models.mlx.test_parity import TASKS, filled
from tests.inference.models.random_model import save_random_checkpoint
from tests.inference.models.test_diffusion_gguf import write_diffusion_gguf


@pytest.mark.parametrize(("kind", "dtype"), [("BF16", "float32"), ("Q8_0", "8bit"), ("Q5_0", "5bit"), ("Q4_1", "4bit")])
def test_it_fills_as_torch_does(kind: str, dtype: str, tmp_path: Path) -> None:
    folder, file = tmp_path / "folder", tmp_path / "m.gguf"
    save_random_checkpoint(folder)
    write_diffusion_gguf(folder, file, kind)
    on_mlx = Engine(registry.load_model(str(file), device="mlx"))
    on_torch = Engine(registry.load_model(str(file), device="cpu", dtype="float32"))
    assert (on_mlx.device, on_mlx.dtype) == ("mlx:cpu", dtype)
    ids = [on_torch.loaded.adapter.tokenizer.encode(f"{text}\n").ids for text in TASKS]
    scores = []
    for engine in (on_mlx, on_torch):
        assert filled(engine, *TASKS["two holes"]).candidates[0].complete
        with closing(engine.loaded.adapter.open_prefix([2])) as context:
            deque(context.prefill(), maxlen=0)
            scores.append(torch.cat(context.log_probabilities(ids)).tolist())
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)
    if dtype != "float32":
        with pytest.raises(ModelError, match=f"leave it out to use {dtype}"):
            registry.load_model(str(file), device="mlx", dtype="bfloat16")
