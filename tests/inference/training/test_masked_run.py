"""A run with the objective of masked diffusion, in miniature: what it writes is a Qwen2 that fills masks."""

import argparse
import inspect
import json
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, Qwen2ForCausalLM

from inference.training import card, masked_trunk, run
from inference.training.config import ConfigError, RunConfig, read
from inference.training.tokenizer import MASK
from inference.training.trainer import TrainingPhase

CONFIGS = Path(run.__file__).parent / "configs"


@pytest.fixture(scope="module")
def config() -> RunConfig:
    """The miniature configuration that comes with the package."""
    return read(CONFIGS / "miniature-masked.toml")


def entries(folder: Path) -> list[dict[str, float]]:
    """The lines of a run's log."""
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_the_loss_falls(finished: Path) -> None:
    """On what is trained on, and on files the model never sees; what is no longer trained is not told of."""
    training = [line for line in entries(finished) if line["kind"] == "train"]
    held_out = [line for line in entries(finished) if str(line["kind"]).startswith("held-out")]
    assert training[-1]["text"] < training[0]["text"] - 0.2
    assert held_out[-1]["text"] < held_out[0]["text"] - 0.2
    assert "causal" in training[0]
    assert "causal" not in training[-1]


def test_the_folder_is_a_qwen2_with_a_mask_token(finished: Path) -> None:
    """As published checkpoints of masked diffusion are: transformers reads it, and finds the mask in its tokenizer."""
    loaded = Qwen2ForCausalLM.from_pretrained(finished / "final")
    stated = json.loads((finished / "final" / "config.json").read_text())
    assert stated["architectures"] == ["Qwen2ForCausalLM"]
    assert stated["model_type"] == "qwen2"
    mask = AutoTokenizer.from_pretrained(finished / "final").mask_token_id
    assert mask == json.loads((finished / "final" / "infill.json").read_text())["mask_token_id"]
    with torch.no_grad():
        assert bool(loaded(input_ids=torch.tensor([[7, mask, 9]])).logits.isfinite().all())


def test_a_run_goes_on_where_it_stopped_and_another_starts_from_its_end(
    config: RunConfig, finished: Path, tmp_path: Path
) -> None:
    """With its weights and its tokenizer."""
    assert run.prepare(config, finished).state.step == 60
    trainer = run.prepare(config, tmp_path, finished / "final")
    shipped = load_file(finished / "final" / "model.safetensors")
    assert trainer.state.step == 0
    assert all(torch.equal(trainer.model.get_parameter(name), weight.float()) for name, weight in shipped.items())


def test_a_run_that_is_stopped_goes_on(config: RunConfig, finished: Path, tmp_path: Path) -> None:
    """With the same weights and their average, from the step after, as often as it is stopped; its log goes on, too."""
    (tmp_path / "corpus.msgpack").write_bytes((finished / "corpus.msgpack").read_bytes())
    first = run.prepare(config, tmp_path)
    first.train(TrainingPhase(steps=60), lambda: first.state.step == 12)
    stopped = {name: weight.clone() for name, weight in first.model.named_parameters()}
    held_out = first.evaluate(averaged=True)
    second = run.prepare(config, tmp_path)
    assert second.state == first.state
    assert all(torch.equal(second.model.get_parameter(name), weight) for name, weight in stopped.items())
    assert second.evaluate(averaged=True) == held_out
    second.train(TrainingPhase(steps=60), lambda: second.state.step == 25)
    assert run.prepare(config, tmp_path).state.step == 25
    assert [line["step"] for line in entries(tmp_path) if line["kind"] == "train"] == [5, 10, 15, 20, 25]
    assert second.evaluate(averaged=True).text < held_out.text


def test_a_run_can_start_from_a_diffusion_gemma_of_its_shape(finished: Path, tmp_path: Path) -> None:
    """The embedded checkpoint, as a Qwen2 with shifted logits, fills masks better than chance from the first step."""
    embedded = Path(run.__file__).parents[1] / "embedded"
    config = read(CONFIGS / "masked.toml")
    training = msgspec.structs.replace(config.training, matching_steps=2, compile=False)
    (tmp_path / "corpus.msgpack").write_bytes((finished / "corpus.msgpack").read_bytes())
    trainer = run.prepare(msgspec.structs.replace(config, training=training), tmp_path, embedded)
    clean = torch.tensor([AutoTokenizer.from_pretrained(embedded)(inspect.getsource(argparse)[8000:9500]).input_ids])
    masked = torch.zeros_like(clean, dtype=torch.bool)
    masked[:, 102::6] = masked[:, 103::6] = True
    rows = clean.shape[1]
    visible = masked_trunk.visible(torch.tensor([rows]), torch.tensor([False]), rows)
    with torch.no_grad():
        logits = trainer.model(input_ids=clean.where(~masked, MASK), attention_mask=visible).logits
    assert torch.nn.functional.cross_entropy(logits[:, :-1][masked[:, 1:]], clean[masked]) < 6.0  # at random: 8.3
    with pytest.raises(ConfigError, match=r"no checkpoint of the shape.*model\.layers must be 7"):
        run.prepare(read(CONFIGS / "miniature-masked.toml"), tmp_path / "other", embedded)


def test_the_card_of_a_run_lists_its_losses(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that it has."""
    assert card.main([str(finished)]) == 0
    assert "| 80 |" in capsys.readouterr().out
