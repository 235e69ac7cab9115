"""Training in miniature, from an empty folder to one that `--model` accepts. `make test-training` tests the rest."""

import json
from pathlib import Path

import pytest

from inference.engine.engine import Engine
from inference.messages import Candidate, Hole, InfillRequest, Text
from inference.models import registry
from inference.training import run
from inference.training.config import read
from inference.training.trainer import TrainingPhase


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    trainer = run.prepare(read(Path(run.__file__).parent / "configs" / "miniature.toml"), out)
    trainer.train(TrainingPhase(steps=60), lambda: False)
    trainer.train(TrainingPhase(steps=20, decays=True), lambda: False)
    trainer.export(out / "final")
    return out


def test_training_lowers_losses(finished: Path) -> None:
    lines = [json.loads(line) for line in (finished / "log.jsonl").read_text().splitlines()]
    for kind in ("train", "held-out"):
        first, *_, last = [line for line in lines if line["kind"] == kind]
        assert last["causal"] < first["causal"] - 0.2
        assert last["hole"] < first["hole"] - 0.2


@pytest.mark.parametrize("name", ["final", "checkpoints/step-0000060"])
def test_each_checkpoint_of_a_run_fills_holes(finished: Path, name: str) -> None:
    """The engine takes the folder as a model; the fill is bad, the pins hold."""
    folder = finished / name
    assert registry.find(str(folder)).properties.slack_token_id == 4
    engine = Engine(registry.load(str(folder), device="cpu"))
    request = InfillRequest("1", (Text("def f(a):\n    return "), Hole(max_tokens=8), Text("\n\n\nx = f(1)\n")))
    (candidate,) = (event for event in engine.infill(request) if isinstance(event, Candidate))
    assert len(candidate.texts) == 1
