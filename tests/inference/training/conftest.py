"""A little real code to train on, and a tokenizer made from it: what most training tests share."""

import inspect
import json
import textwrap

import pytest
from tokenizers import Tokenizer

from inference.training import gemma_tokenizer, tokenizer
from inference.training.holes import TrainingDocument

_MODULES = (json.decoder, json.encoder, textwrap, json)


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """Sources of a few modules of the standard library."""
    return [inspect.getsource(module) for module in _MODULES]


@pytest.fixture(scope="session")
def small_tokenizer(texts: list[str]) -> Tokenizer:
    """600 entries."""
    return tokenizer.train(texts, 600)


@pytest.fixture(scope="session")
def small_gemma_tokenizer(texts: list[str]) -> Tokenizer:
    """900 entries, of Gemma's kind."""
    return gemma_tokenizer.train(texts, 900)


@pytest.fixture(scope="session")
def documents(texts: list[str]) -> list[TrainingDocument]:
    """The texts with their spans."""
    return [TrainingDocument.of(text) for text in texts]
