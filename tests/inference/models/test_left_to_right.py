"""The baseline writes what one whole causal pass would predict, and leaves nothing behind."""

import pytest
import torch

from inference.engine import Engine
from inference.models.diffusion_gemma import left_to_right
from tests.inference.loaded import causal_logits, check_nothing_is_open, gemma

PREFIX = "import os\n\n\ndef size(path):\n    return"


def test_each_token_is_the_likeliest_after_those_before_it(embedded: Engine, released: Engine) -> None:
    for engine in (embedded, released):
        network = gemma(engine).network
        ids = engine.loaded.vocabulary.encode(PREFIX)
        written = list(left_to_right.tokens(gemma(engine).prefixes, ids, 12))
        whole = [*ids, *written]
        predicted = causal_logits(network, whole).argmax(-1).tolist()
        assert predicted[len(ids) - 1 : -1] == written


def test_forbidden_tokens_are_not_written(embedded: Engine) -> None:
    ids = embedded.loaded.vocabulary.encode(PREFIX)
    bias = torch.full((gemma(embedded).network.vocabulary_size,), -1e9)
    bias[[7, 8]] = 0.0
    written = list(left_to_right.tokens(gemma(embedded).prefixes, ids, 5, bias))
    assert set(written) <= {7, 8}


def test_stopping_early_frees_the_prefix(embedded: Engine) -> None:
    ids = embedded.loaded.vocabulary.encode(PREFIX)
    writing = left_to_right.tokens(gemma(embedded).prefixes, ids, 100)
    next(writing)
    writing.close()
    check_nothing_is_open(embedded)


def test_there_must_be_something_to_start_from(embedded: Engine) -> None:
    with pytest.raises(ValueError, match="at least one token"):
        next(left_to_right.tokens(gemma(embedded).prefixes, [], 1))
