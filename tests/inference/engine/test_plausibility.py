"""The engine trusts a model's likelihoods only if it finds plain code likely."""

import math

import pytest

from inference.engine.engine import Engine
from inference.messages import Hole
from inference.models import registry
from tests.inference.engine.bigram_family import BigramFamily
from tests.inference.engine.filling import fill
from tests.inference.loaded import check_nothing_is_open, save_with_broken_encoder

SEGMENTS = ("import os\n\n\ndef size(path):\n    return ", Hole(single_line=True), "\n\n\nprint(size('.'))\n")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("broken") / "checkpoint"
    save_with_broken_encoder(folder)
    return Engine(registry.load_model(str(folder), device="cpu"))


@pytest.mark.parametrize("name", ["embedded", "twin"])
def test_a_trained_checkpoint_is_believed(name: str, request: pytest.FixtureRequest) -> None:
    engine: Engine = request.getfixturevalue(name)
    assert engine.note == ""
    assert engine.loaded.traits == engine.loaded.adapter.traits
    check_nothing_is_open(engine)


def test_where_the_encoder_is_broken_the_canvas_ranks(broken: Engine) -> None:
    found = fill(broken, *SEGMENTS, candidates=4, max_steps=8, seed=1).candidates
    assert len(found) > 1
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    by_chance = -math.log(broken.loaded.traits.vocabulary_size)
    assert all(one.score > by_chance / 2 for one in found), "likelihoods of this encoder are worse than by chance"
    assert "no better than random guessing" in broken.note
    check_nothing_is_open(broken)


def test_random_weights_are_not_believed(released: Engine) -> None:
    assert "no better than random guessing" in released.note
    assert not released.loaded.traits.can_score


def test_a_family_without_likelihoods_is_not_asked_for_any() -> None:
    assert Engine(BigramFamily("x = 1\n")).note == ""
