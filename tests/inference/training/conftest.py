"""A little real code to train on, and its tokenizer, shared by most training tests."""

import inspect
import json
import textwrap
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from inference.training import run, tokenizer
from inference.training.config import RunConfig
from inference.training.holes import TrainingDocument
from inference.training.trainer import TrainingPhase

_MODULES = (json.decoder, json.encoder, textwrap, json)


@pytest.fixture(scope="session")
def texts() -> list[str]:
    return [inspect.getsource(module) for module in _MODULES]


@pytest.fixture(scope="session")
def small_tokenizer(texts: list[str]) -> Tokenizer:
    return tokenizer.train(texts, 600)


@pytest.fixture(scope="session")
def documents(texts: list[str]) -> list[TrainingDocument]:
    return [TrainingDocument.of(text) for text in texts]


@pytest.fixture(scope="module")
def finished(config: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with the module's own `config`: 60 steps, and a decay over 20 more."""
    out = tmp_path_factory.mktemp("run")
    trainer = run.prepare(config, out)
    trainer.train(TrainingPhase(steps=60), lambda: False)
    trainer.train(TrainingPhase(steps=20, decays=True), lambda: False)
    trainer.export(out / "final")
    return out
