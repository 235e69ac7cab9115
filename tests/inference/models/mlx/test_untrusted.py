"""An untrusted folder: nothing in it is run or written, and errors name the problem."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inference.models import registry
from inference.models.family import ModelError
from tests.inference.models.mlx.conftest import EMBEDDED
from tests.inference.models.test_checkpoint import header, rewrite, text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EMBEDDED, tmp_path / "checkpoint"))


def unknown_numbers(entries: dict[str, Any]) -> None:
    entries["model.decoder.norm.weight"]["dtype"] = "F8_OTHER"


def renamed(entries: dict[str, Any]) -> None:
    entries["something.else"] = entries.pop("model.decoder.norm.weight")


def wider(folder: Path) -> None:
    text(folder, intermediate_size=1 << 20, moe_intermediate_size=1 << 20, head_dim=4096)


BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "numbers that MLX does not know": (header(unknown_numbers), "is damaged: .* unknown variant"),
    "a weight that is missing": (header(renamed), r"1 weights are missing.*model\.decoder\.norm\.weight"),
    "a model that is described far larger": (wider, "weights are missing or of another shape"),
    "positions that are none": (lambda folder: text(folder, rope_parameters={"full_attention": 3}), "cannot be loaded"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_is_said_and_stays_as_it_is(folder: Path, what: str) -> None:
    damage, complaint = BROKEN[what]
    damage(folder)
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(ModelError, match=complaint):
        registry.load_model(str(folder), device="mlx", dtype="float32")
    assert (folder / "model.safetensors").read_bytes() == before


def test_code_that_a_checkpoint_brings_is_not_run(folder: Path, tmp_path: Path) -> None:
    trace = tmp_path / "it ran"
    for name in ("diffusion_gemma.py", "modeling.py", "__init__.py"):
        (folder / name).write_text(f"open({str(trace)!r}, 'w')")
    classes = {"AutoConfig": "modeling.Config", "AutoModel": "modeling.Model"}
    rewrite(folder, auto_map=classes, model_file="modeling.py")
    registry.load_model(str(folder), device="mlx", dtype="float32")
    assert not trace.exists()
