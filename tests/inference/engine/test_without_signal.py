"""A checkpoint without a length signal still finds lengths, in few passes: `tests/data/twin`."""

from pathlib import Path

from inference.bench import infilling_tasks
from inference.bench.infilling import by_engine
from inference.engine import Engine
from inference.messages import Draft, Hole, HoleKind, InfillRequest, Text

TUNING = Path(__file__).parents[2] / "data" / "tuning.jsonl.gz"
KNOWN = ("msgspec/_json_schema.py:244", "numpy/distutils/core.py:148", "mypyc/primitives/bytes_ops.py:91")
KNOWN += ("rich/scope.py:1", "httpx2/_utils.py:69")
"""What the twin writes exactly where it is told the length: two to four tokens."""

RIGHT = 2
"""So many of them it also writes without being told; with six lengths one."""

PASSES = 9
"""Decoder passes of a line, of which 48 are allowed by the published settings."""


def test_lines_get_their_length(twin: Engine) -> None:
    tasks = [task for task in infilling_tasks.read(TUNING) if task.task_id.removeprefix("span/") in KNOWN]
    assert len(tasks) == len(KNOWN)
    fills = [*map(by_engine(twin), tasks)]
    assert sum(fill.exact for fill in fills) >= RIGHT, [fill.text for fill in fills]
    assert max(fill.passes for fill in fills) <= PASSES


def test_a_block_is_not_as_short_as_the_likelihood_would_have_it(twin: Engine) -> None:
    """Seen in the last draft: this small model repeats itself in a block, and such a fill is no candidate."""
    before = 'def area(width, height):\n    """The area."""\n    '
    segments = (Text(before), Hole(HoleKind.BODY), Text("\n\n\nx = 1\n"))
    request = InfillRequest("r", segments, max_steps=8, seed=0, drafts=True)
    *_, last = (event for event in twin.infill(request) if isinstance(event, Draft))
    assert len(last.texts[0]) >= 24
