"""The small checkpoints in `tests/data`: the twin of the released one, and a masked-diffusion one."""

from pathlib import Path

import msgspec
import pytest

from inference.engine.engine import Engine
from inference.messages import Hole
from inference.models import registry
from tests.inference.engine.filling import fill
from tests.inference.loaded import using

TWIN = Path(__file__).parents[2] / "data" / "twin"


@pytest.fixture(scope="module")
def masked() -> Engine:
    """In float32, so that every host fills alike."""
    return Engine(registry.load_model(str(TWIN.with_name("masked")), device="cpu", dtype="float32"))


@pytest.mark.parametrize(
    ("name", "before", "tokens", "after", "expected"),
    [
        ("twin", "def f(items):\n    for ", 1, " in items:\n        print(item)\n", "item"),
        ("twin", "import json\n\n\ndef load(text):\n    return json.", 2, "(text)\n", "loads"),
        ("twin", "def check(value):\n    if value ", 1, " None:\n        raise ValueError(value)\n", "is"),
        ("masked", "def f(items):\n    for ", 1, " in items:\n        print(item)\n", "item"),
        ("masked", "try:\n    f()\nexcept ValueError ", 1, " error:\n    raise\n", "as"),
    ],
)
def test_it_fills_what_both_sides_tell(
    request: pytest.FixtureRequest, name: str, before: str, tokens: int, after: str, expected: str
) -> None:
    """Given the number of tokens, the healed one included, and the published stop: ours ends too early at one."""
    engine: Engine = request.getfixturevalue(name)
    stop = msgspec.structs.replace(engine.loaded.infill_config.sampler, total_entropy=0.0, still_steps=0)
    published = using(engine, sampler=stop)
    hole = Hole(min_tokens=tokens, max_tokens=tokens, single_line=True)
    assert fill(published, before, hole, after, path="module.py", seed=0, max_steps=16).text == expected
