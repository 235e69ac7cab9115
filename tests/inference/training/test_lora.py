"""Adapters for a large checkpoint, on a small random one with all its parts."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from transformers import DiffusionGemmaForBlockDiffusion

from inference.models import registry
from inference.models.properties import Properties
from inference.training import composer, model, run, tokenizer
from inference.training.config import ConfigError, DataConfig, LoraConfig, RunConfig, TrainingConfig
from inference.training.holes import TrainingDocument
from inference.training.trainer import TrainingPhase
from tests.inference.models.random_model import VOCABULARY_SIZE, random_model

pytest.importorskip("peft")
from inference.training import lora

TWIN = Path(__file__).parents[2] / "data" / "twin"
EOS, TURN, TURN_END = 1, 105, 106


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> Path:
    """A checkpoint folder: sliding and full layers, V = K, several experts; its tokenizer has an unused token."""
    folder = tmp_path_factory.mktemp("base")
    random_model().save_pretrained(folder)
    tokenizer.train(texts, VOCABULARY_SIZE).save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture
def config(base: Path) -> RunConfig:
    return RunConfig(
        data=DataConfig(prefix_tokens=40, canvas_tokens=32, source_mb=0.05, sources=("attrs", "click")),
        training=TrainingConfig(streams=2, autocast=False, compile=False, warmup_steps=1, other_lr=0.01),
        lora=LoraConfig(base=str(base), slack_token="<slack>", rank=2, alpha=4),
    )


def weights(folder: Path) -> dict[str, Any]:
    return DiffusionGemmaForBlockDiffusion.from_pretrained(folder, dtype=torch.float32).state_dict()


def test_only_adapters_train_and_merge(config: RunConfig, base: Path, tmp_path: Path) -> None:
    """Uniform noise, a slack token of its own; the base is not changed, and training can go on after a save."""
    trainer = run.prepare(config, tmp_path)
    names = list(model.trained(trainer.model))
    assert names
    assert all("lora_" in name for name in names)
    trainer.train(TrainingPhase(steps=3), lambda: False)
    trainer.export(tmp_path / "final")
    before, after = weights(base), weights(tmp_path / "final")
    assert set(before) == set(after)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert "model.decoder.layers.0.self_attn.q_proj.weight" in changed
    assert "model.encoder.language_model.layers.0.self_attn.q_proj.weight" in changed
    assert not any(part in name for name in changed for part in ("experts", "router", "embed_tokens", "norm"))
    properties = registry.find(str(tmp_path / "final")).properties
    assert (properties.corruption, properties.mask_token_id, properties.slack_token_id) == ("uniform", None, 4)
    trainer.train(TrainingPhase(steps=1), lambda: False)
    assert run.prepare(config, tmp_path).state.step == 4


def test_a_tuned_checkpoint_is_prompted_and_sampled_as_its_base(tmp_path: Path) -> None:
    """Conversations with instructions and other files, also while it is tuned; what is new is the slack token."""
    data = DataConfig(prefix_tokens=160, canvas_tokens=64)
    tuned = lora.load(LoraConfig(base=str(TWIN), slack_token="<unused60>", rank=2), data, torch.device("cpu"))
    tuned.write(tmp_path)
    stated, base = registry.find(str(tmp_path)).properties, registry.find(str(TWIN)).properties
    assert stated == msgspec.structs.replace(base, slack_token_id=60, canvas_tokens=64, slots=composer.SLOTS)
    assert stated.prompt == "chat"
    assert tuned.tokens.ending == (TURN_END, *[EOS] * 8)
    before = tuned.framing(TrainingDocument.of("x = 1\n", "one.py"), 0, np.random.default_rng(0))
    assert before.count(TURN) == 2


def test_fresh_adapters_change_nothing(base: Path) -> None:
    loaded = DiffusionGemmaForBlockDiffusion.from_pretrained(base, dtype=torch.float32).eval()
    ids, canvas = torch.randint(5, VOCABULARY_SIZE, (1, 12)), torch.randint(5, VOCABULARY_SIZE, (1, 16))
    with torch.no_grad():
        plain = loaded(input_ids=ids, decoder_input_ids=canvas).logits
        lora.adapt(loaded, LoraConfig(base="", slack_token=""))
        adapted = loaded(input_ids=ids, decoder_input_ids=canvas).logits
    torch.testing.assert_close(adapted, plain)


def test_a_slack_token_that_is_none_is_an_error(config: RunConfig, small_tokenizer: Tokenizer) -> None:
    with pytest.raises(ConfigError, match="<unused0>"):
        lora.tokens_of(small_tokenizer, "<unused0>", Properties())
    with pytest.raises(ConfigError, match="models pull no-such/model"):
        lora.load(LoraConfig(base="no-such/model", slack_token="x"), config.data, model.device())


def test_without_a_mask_token_all_noise_is_random_tokens(small_tokenizer: Tokenizer) -> None:
    tokens = lora.tokens_of(small_tokenizer, "<slack>", Properties(prompt="chat"))
    assert tokens.mask is None and tokens.slack == tokenizer.SLACK
