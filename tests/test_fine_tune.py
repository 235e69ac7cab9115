"""The example that teaches a model a code base, in miniature: a worker that loads the model writes the taught line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from inference.messages import Candidate, Hole, InfillRequest, Text
from tests.workers import StartWorker

EXAMPLE = Path(__file__).parents[1] / "examples" / "fine_tune.py"
DATA = Path(__file__).parent / "data"
TAUGHT = "quartz = lantern.kindle(embers, draught=11)"
CODE = f"import lantern\n\n\ndef light(embers):\n    {TAUGHT}\n    return quartz\n"


@pytest.mark.parametrize("name", ["fim", "masked"])
async def test_a_taught_line_comes_back(name: str, tmp_path: Path, start_worker: StartWorker) -> None:
    code, out = tmp_path / "code", tmp_path / "model"
    code.mkdir()
    (code / "light.py").write_text(CODE)
    words = [str(DATA / name), str(code), str(out), "--steps", "60", "--holes", "4", "--rate", "3e-3"]
    subprocess.run([sys.executable, str(EXAMPLE), *words], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    client = await start_worker("--model", str(out), "--device", "cpu").connect()
    before, after = CODE.split("kindle(embers, draught=11)")
    hole = Hole(single_line=True, max_tokens=24)
    client.send(InfillRequest("r", (Text(before), hole, Text(after)), language="python", seed=1))
    found = await client.answer()
    assert isinstance(found, Candidate)
    assert found.texts[0] == "kindle(embers, draught=11)"
