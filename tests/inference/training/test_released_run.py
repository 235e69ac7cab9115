"""A run with the released checkpoint's conventions, in miniature: its result loads like a released checkpoint."""

import json
from pathlib import Path

import msgspec
import pytest
from transformers.models.diffusion_gemma.generation_diffusion_gemma import DiffusionGemmaGenerationConfig

from inference.engine.engine import Engine
from inference.messages import Candidate, Hole, InfillRequest, Text
from inference.models import registry
from inference.models.properties import SamplerSettings
from inference.training import run
from inference.training.config import ConfigError, RunConfig, read
from inference.training.trainer import TrainingPhase

_CONFIGS = Path(run.__file__).parent / "configs"


@pytest.fixture(scope="module")
def config() -> RunConfig:
    """The miniature configuration of this kind."""
    return read(_CONFIGS / "miniature-twin.toml")


@pytest.fixture(scope="module")
def finished(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 40 steps that decays over 20 more."""
    out = tmp_path_factory.mktemp("run")
    trainer = run.prepare(config, out)
    trainer.train(TrainingPhase(steps=40), lambda: False)
    trainer.train(TrainingPhase(steps=20, decays=True), lambda: False)
    trainer.export(out / "final")
    return out


def test_both_losses_fall(finished: Path) -> None:
    """On what is trained on, and on files the model never sees."""
    lines = [json.loads(line) for line in (finished / "log.jsonl").read_text().splitlines()]
    for kind in ("train", "held-out"):
        first, *_, last = (line for line in lines if line["kind"] == kind)
        assert last["causal"] < first["causal"] - 0.2
        assert last["hole"] < first["hole"] - 0.2


def test_the_folder_is_read_as_a_released_checkpoint(finished: Path) -> None:
    """Uniform noise, turns, no mask, no slack, the published sampler but for its stop; no file of ours says so."""
    folder = finished / "final"
    assert not (folder / "infill.json").exists()
    properties = registry.find(str(folder)).properties
    assert (properties.corruption, properties.prompt) == ("uniform", "chat")
    assert properties.mask_token_id is properties.slack_token_id is None
    assert properties.canvas_tokens == 64
    ours = {"total_entropy": properties.sampler.total_entropy, "still_steps": properties.sampler.still_steps}
    assert all(ours.values())
    assert properties.sampler == msgspec.structs.replace(SamplerSettings(), **ours)


def test_generation_settings_are_complete(finished: Path) -> None:
    """So that transformers and vLLM serve the folder as it is; the ends of a reply are the released ones."""
    settings = DiffusionGemmaGenerationConfig.from_pretrained(finished / "final")
    assert settings.eos_token_id == [1, 106, 50]
    assert settings.pad_token_id == 0
    written = json.loads((finished / "final" / "generation_config.json").read_text())
    assert written["sampler_config"] == {"_cls_name": "EntropyBoundSamplerConfig", "entropy_bound": 0.1}
    assert {"max_denoising_steps", "t_min", "t_max", "stability_threshold", "confidence_threshold"} <= set(written)
    assert None not in written.values()
    assert json.loads((finished / "final" / "config.json").read_text())["eos_token_id"] == [1, 106, 50]


def test_a_hole_is_filled_between_turns(finished: Path) -> None:
    """The fill is bad, the pins hold."""
    engine = Engine(registry.load(str(finished / "final"), device="cpu"))
    request = InfillRequest(
        "1", segments=(Text("def f(a):\n    return "), Hole(max_tokens=8), Text("\n\n\nx = f(1)\n")), path="a.py"
    )
    (candidate,) = (event for event in engine.infill(request) if isinstance(event, Candidate))
    assert len(candidate.texts) == 1


def test_a_run_starts_only_from_its_own_conventions(config: RunConfig, tmp_path: Path) -> None:
    """Each kind has a tokenizer of its own, and an embedding belongs to its token."""
    run.prepare(read(_CONFIGS / "miniature.toml"), tmp_path / "own").export(tmp_path / "own" / "final")
    with pytest.raises(ConfigError, match="tokenizer is not that of the run"):
        run.prepare(config, tmp_path / "released", tmp_path / "own" / "final")
