"""The choice of lengths to try, which needs few passes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.bench import infilling_tasks
from inference.bench.infilling import by_engine
from inference.engine import Engine
from inference.engine.canvas.layout import Slots
from inference.engine.search import length
from inference.messages import Draft, Hole, HoleKind, InfillRequest, Text

LINE = Slots(24, single_line=True)
HOLES = st.builds(lambda low, more: Slots(maximum=low + more, minimum=low), st.integers(1, 20), st.integers(0, 60))


@given(holes=st.lists(HOLES, min_size=1, max_size=3), count=st.integers(1, 8))
def test_lengths_keep_within_the_limits_of_every_hole(holes: list[Slots], count: int) -> None:
    for choices in (length.from_grid(holes, count), length.guessed([*holes, Slots(9)], count, usual_first=False)):
        assert 1 <= len(choices) <= count
        assert len(set(choices)) == len(choices)
        for choice in choices:
            assert all(hole.minimum <= size <= hole.maximum for hole, size in zip(holes, choice, strict=False))


def test_lengths_far_from_the_usual_are_unusual() -> None:
    far = {size: length.unusual([LINE], [size]) for size in (1, 2, 4, 6, 9, 18)}
    assert far[6] == 0.0 < far[9] < far[18] < far[1]
    assert (far[9], far[18]) == pytest.approx((far[4], far[2]))
    assert length.unusual([LINE, LINE], [6, 18]) == pytest.approx(far[18] / 2)
    assert length.unusual([Slots(9, minimum=9)], [9]) == 0.0, "it has no other"


def test_usual_length_keeps_within_limits() -> None:
    holes = [Slots(24, single_line=True), Slots(64), Slots(4, single_line=True), Slots(24, minimum=20), Slots(0, 0)]
    assert length.usual(holes) == (6, 40, 4, 20, 0)


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
