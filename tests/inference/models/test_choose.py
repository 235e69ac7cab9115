"""The model behind `auto`, by the pulled models and the machine."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from inference.models import catalogue
from inference.models.catalogue import EMBEDDED

TWIN = Path(__file__).parents[2] / "data" / "twin"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "infill-ls"


def chosen(folder: Path) -> tuple[str, str]:
    program = "import json; from inference.models import recommend; print(json.dumps(recommend.choose('cpu')))"
    environment = {**os.environ, "HF_HOME": str(folder.parent), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment, check=True)
    model, why, better = json.loads(done.stdout)
    assert better in (["qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"] if model == EMBEDDED else [""])
    return model, why


def put(folder: Path, name: str, *, complete: bool = True) -> None:
    """As a pull leaves it, but for what `auto` does not read."""
    shutil.copytree(TWIN, folder / name)
    repo = catalogue.known(name).repo
    weights = TWIN / "model.safetensors"
    files = {weights.name: {"size": weights.stat().st_size, "digest": "0" * 64}}
    record = {"repo": repo, "revision": "r", "licence": "mit", "files": files, "complete": complete}
    (folder / name / "pulled.json").write_text(json.dumps(record))


def test_with_nothing_pulled_it_is_the_embedded_one(folder: Path) -> None:
    assert chosen(folder) == (EMBEDDED, "no other model is on this machine")


def test_what_is_half_pulled_or_damaged_is_not_and_it_says_so(folder: Path) -> None:
    put(folder, "open-dcoder-0.5b", complete=False)
    put(folder, "qwen2.5-coder-0.5b-mdlm")
    (folder / "qwen2.5-coder-0.5b-mdlm" / "pulled.json").write_text("no JSON")
    put(folder, "dreamon-7b")
    (folder / "dreamon-7b" / "model.safetensors").unlink()
    (folder / "qwen2.5-coder-1.5b").mkdir()
    (folder / "qwen2.5-coder-1.5b" / catalogue.known("qwen2.5-coder-1.5b").file.name).write_bytes(b"GGUF")
    model, why = chosen(folder)
    assert model == EMBEDDED
    assert "open-dcoder-0.5b: only partly downloaded" in why
    assert "dreamon-7b/model.safetensors is missing or cut off" in why
    assert ".gguf is missing or cut off" in why
    assert "pulled.json is damaged" in why
    assert "run: infill-ls models pull open-dcoder-0.5b" in why


def test_what_is_too_slow_here_is_not_and_it_says_so(folder: Path) -> None:
    put(folder, "dreamon-7b")
    model, why = chosen(folder)
    assert model == EMBEDDED
    assert "dreamon-7b" in why
    put(folder, "open-dcoder-0.5b")
    model, why = chosen(folder)
    assert model == "open-dcoder-0.5b"
    assert "dreamon-7b" in why
