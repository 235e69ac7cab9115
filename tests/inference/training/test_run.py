"""The whole recipe in miniature: from an empty folder to one that `--model` accepts, stopped and resumed."""

import json
import os
import signal
import threading
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file

from inference.training import run, trainer
from inference.training.config import ConfigError, RunConfig, read
from inference.training.trainer import TrainingPhase

MINIATURE = Path(run.__file__).parent / "configs" / "miniature.toml"


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return read(MINIATURE)


def test_a_finished_run_states_how_it_is_sampled(finished: Path) -> None:
    """For programs that do not read `infill.json`: transformers, vLLM."""
    stated = json.loads((finished / "final" / "generation_config.json").read_text())
    sampler = json.loads((finished / "final" / "infill.json").read_text())["sampler"]
    assert stated["sampler_config"]["entropy_bound"] == sampler["entropy_bound"]
    assert (stated["max_denoising_steps"], stated["t_max"]) == (sampler["max_steps"], sampler["t_max"])
    assert None not in stated.values()


def test_only_the_newest_checkpoints_are_kept(config: RunConfig, finished: Path) -> None:
    trainer = run.prepare(config, finished)
    for _ in range(4):
        trainer.train(TrainingPhase(steps=1), lambda: False)
    folders = sorted(path.name for path in (finished / "checkpoints").iterdir())
    assert len(folders) == config.report.keep_checkpoints
    assert all(name.startswith("step-") for name in folders)


def test_a_request_to_stop_saves_first(config: RunConfig, tmp_path: Path) -> None:
    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
    run.run(config, tmp_path, minutes=None, decay_minutes=1)
    assert trainer.latest(tmp_path / "checkpoints") is not None
    assert not (tmp_path / "final").exists()


def test_the_command_says_what_is_wrong_with_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(MINIATURE.read_text().replace("hidden_size", "hiden_size"))
    assert run.main(["--config", str(file), "--out", str(tmp_path)]) == 2
    assert "hiden_size" in capsys.readouterr().out
    assert run.main(["--config", str(tmp_path / "none.toml"), "--out", str(tmp_path)]) == 2


def test_every_configuration_that_ships_can_be_read(config: RunConfig) -> None:
    """Its description holds: the embedded model is small."""
    shipped = {file.stem: read(file) for file in MINIATURE.parent.glob("*.toml")}
    assert {"embedded-cpu", "embedded-gpu", "miniature", "lora"} <= set(shipped)
    assert msgspec.structs.replace(config) == shipped["miniature"]


def test_a_new_run_can_go_on_from_a_shipped_checkpoint(config: RunConfig, finished: Path, tmp_path: Path) -> None:
    """Its tokenizer and weights are the folder's, in what bfloat16 keeps of them; another shape is refused."""
    trainer = run.prepare(config, tmp_path / "next", finished / "final")
    assert trainer.state.step == 0
    assert (tmp_path / "next" / "tokenizer.json").read_bytes() == (finished / "final" / "tokenizer.json").read_bytes()
    shipped = load_file(finished / "final" / "model.safetensors")
    text = {name: weight.float() for name, weight in shipped.items() if "vision" not in name and "scalar" not in name}
    assert all(torch.equal(trainer.model.get_parameter(name), weight) for name, weight in text.items())
    other = msgspec.structs.replace(config, model=msgspec.structs.replace(config.model, layers=config.model.layers + 1))
    with pytest.raises(ConfigError, match="no checkpoint of the shape"):
        run.prepare(other, tmp_path / "other", finished / "final")
