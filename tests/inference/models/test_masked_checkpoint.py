"""The tests' masked-diffusion checkpoint: `tests/data/masked`."""

from pathlib import Path

import pytest

from inference.engine.engine import Engine
from inference.messages import Candidate, Hole, InfillRequest, Text
from inference.models import registry
from inference.models.family import LengthSignal
from inference.models.properties import NoiseKind

MASKED = Path(__file__).parents[2] / "data" / "masked"


@pytest.fixture(scope="module")
def engine() -> Engine:
    """In float32, so that every host fills alike."""
    return Engine(registry.load(str(MASKED), device="cpu", dtype="float32"))


def fill(engine: Engine, before: str, tokens: int, after: str) -> str:
    """What it writes into a hole of exactly so many tokens on one line."""
    hole = Hole(min_tokens=tokens, max_tokens=tokens, single_line=True)
    request = InfillRequest("1", (Text(before), hole, Text(after)), seed=0)
    (candidate,) = (event for event in engine.infill(request) if isinstance(event, Candidate))
    return candidate.texts[0]


def test_it_is_read_as_a_masked_diffusion_model(engine: Engine) -> None:
    """Plain Qwen2 with a mask token and shifted logits, that says nothing of lengths and cannot score."""
    traits = engine.loaded.family.traits
    assert (traits.noise, traits.length_signal) == (NoiseKind.MASK, LengthSignal.NONE)
    assert (traits.can_score, traits.continuable_tokens) == (False, 0)
    assert engine.loaded.properties.shifted_logits


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("def f(items):\n    for ", " in items:\n        print(item)\n", "item"),
        ("def check(value):\n    if value ", " None:\n        raise ValueError(value)\n", "is"),
        ("try:\n    f()\nexcept ValueError ", " error:\n    raise\n", "as"),
        pytest.param(
            "def f(self, name, value):\n    self.name = ",
            "\n    self.value = value\n",
            "name",
            marks=pytest.mark.xfail(strict=True, reason="these weights write `value`; those before them wrote `name`"),
        ),
    ],
)
def test_it_fills_what_both_sides_tell(engine: Engine, before: str, after: str, expected: str) -> None:
    """Given the right number of tokens, that of the text in front which the hole takes over included."""
    assert fill(engine, before, 1, after) == expected
