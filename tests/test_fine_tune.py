"""The example that teaches a model a code base, in miniature: a worker that loads the model writes the taught line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from inference.messages import FilledHoles, Hole, InfillRequest, PinnedText
from tests.workers import StartWorker

EXAMPLE = Path(__file__).parents[1] / "examples" / "fine_tune.py"
DATA = Path(__file__).parent / "data"
TAUGHT = "quartz = lantern.kindle(embers, draught=11)"
CODE = f"import lantern\n\n\ndef light(embers):\n    {TAUGHT}\n    return quartz\n"


@pytest.mark.parametrize(("name", "steps"), [("fim", 150), ("masked", 150)])
async def test_a_taught_line_comes_back(name: str, steps: int, tmp_path: Path, start_worker: StartWorker) -> None:
    """From a masked model at its own length, a token a step: how to choose those is not what it was taught."""
    code, out = tmp_path / "code", tmp_path / "model"
    code.mkdir()
    (code / "light.py").write_text(CODE)
    words = [str(DATA / name), str(code), str(out), "--steps", str(steps), "--holes", "4", "--rate", "3e-3"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, str(EXAMPLE), *words], check=True, env=one_thread)
    client = await start_worker("--model", str(out), "--device", "cpu").connect()
    before, after = CODE.split(TAUGHT)
    tokens = len(Tokenizer.from_file(str(out / "tokenizer.json")).encode(TAUGHT).ids)
    found = []
    for length in (0,) if name == "fim" else (tokens, tokens + 1):  # healing may decode one more in front
        hole = Hole(single_line=True, min_tokens=max(1, length), max_tokens=length)
        segments = (PinnedText(before), hole, PinnedText(after))
        client.send(InfillRequest("r", segments, language="python", seed=1, max_steps=32))
        while isinstance(candidate := await client.answer(), FilledHoles):
            found.append(candidate.texts[0])
    assert TAUGHT in found
