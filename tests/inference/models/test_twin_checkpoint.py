"""The small twin of the released checkpoint, used by tests and settings: `tests/data/twin`."""

from pathlib import Path

import msgspec
import pytest

from inference.engine.engine import Engine
from inference.messages import Candidate, Hole, InfillRequest, Text
from inference.models import registry
from inference.models.properties import SamplerSettings

TWIN = Path(__file__).parents[2] / "data" / "twin"


@pytest.fixture(scope="module")
def engine(twin: Engine) -> Engine:
    return twin


def fill(engine: Engine, before: str, tokens: int, after: str) -> str:
    """What it writes into a hole of exactly so many tokens on one line."""
    hole = Hole(min_tokens=tokens, max_tokens=tokens, single_line=True)
    request = InfillRequest("1", (Text(before), hole, Text(after)), path="module.py", max_steps=16, seed=0)
    (candidate,) = (event for event in engine.infill(request) if isinstance(event, Candidate))
    return candidate.texts[0]


def test_the_twin_is_read_as_a_released_checkpoint() -> None:
    """Nothing in its folder is ours."""
    properties = registry.find(str(TWIN)).properties
    assert not (TWIN / "infill.json").exists()
    assert (properties.corruption, properties.prompt, properties.canvas_tokens) == ("uniform", "chat", 256)
    assert properties.mask_token_id is properties.slack_token_id is None
    stop = {"total_entropy": properties.sampler.total_entropy, "still_steps": properties.sampler.still_steps}
    assert all(stop.values())
    assert properties.sampler == msgspec.structs.replace(SamplerSettings(), **stop)


@pytest.mark.parametrize(
    ("before", "tokens", "after", "expected"),
    [
        ("def f(items):\n    for ", 1, " in items:\n        print(item)\n", "item"),
        ("import json\n\n\ndef load(text):\n    return json.", 2, "(text)\n", "loads"),
        (
            "class A:\n    def __init__(self, name):\n        self.name = ",
            1,
            "\n\n    def show(self):\n        print(self.name)\n",
            "name",
        ),
        ("def check(value):\n    if value ", 1, " None:\n        raise ValueError(value)\n", "is"),
    ],
)
def test_it_fills_what_both_sides_tell(engine: Engine, before: str, tokens: int, after: str, expected: str) -> None:
    """Given the right number of tokens, that of the text in front which the hole takes over included.

    With the published stop: ours ends `json.loads` at `json._result`, where the answer has stood for two steps.
    """
    properties = engine.loaded.properties
    stop = msgspec.structs.replace(properties.sampler, total_entropy=0.0, still_steps=0)
    published = engine.using(msgspec.structs.replace(properties, sampler=stop))
    assert fill(published, before, tokens, after) == expected
