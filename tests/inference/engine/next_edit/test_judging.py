"""A causal model judges the proposals after a change: real passes of a small model that knows no code."""

import time
from collections.abc import Sequence

import pytest

from inference.engine import Engine
from inference.engine.next_edit.judging import NextEditing
from inference.messages import Done, Edit, Hunk, NextEditRequest, NextEdits, Outcome

TEXT = "def area(width):\n    return width * 2\n\n\nprint(area(1))\nprint(hight)\n"
CHANGED = Hunk(1, "    return hight * 2\n", "    return width * 2\n")
RENAMED = (TEXT.index("print(hight)"), len(TEXT), "print(width)\n")


def answered(engine: Engine, request: NextEditRequest, deadline: float | None = None) -> tuple[Sequence[Edit], Done]:
    work = NextEditing(engine.loaded, request, deadline, margin=-1e9)
    edits, done = [event for event in work if event is not None]
    assert edits.id == done.id == request.id
    return edits.edits, done


def test_an_edit_is_of_whole_lines(middle: Engine) -> None:
    edits, done = answered(middle, NextEditRequest("n", TEXT, (CHANGED,)))
    assert done.outcome is Outcome.COMPLETE
    assert [(edit.start, edit.end, edit.text) for edit in edits] == [RENAMED]


def test_nothing_is_offered_below_the_margin(middle: Engine) -> None:
    work = NextEditing(middle.loaded, NextEditRequest("n", TEXT, (CHANGED,)), None, margin=1e9)
    assert next(event for event in work if isinstance(event, NextEdits)).edits == ()


CALCULATIONS = [("* 3", "* 2"), ("+ 2", "* 2"), ("", " * 2"), ("* 2 < 3", "* 2 <= 3")]


@pytest.mark.parametrize("hunks", [(), (Hunk(90, "a\n", "b\n"),), (Hunk(1, "", ""),)])
def test_hunks_that_lead_nowhere(middle: Engine, hunks: tuple[Hunk, ...]) -> None:
    edits, done = answered(middle, NextEditRequest("n", TEXT, hunks))
    assert edits == ()
    assert done.outcome is Outcome.COMPLETE


@pytest.mark.parametrize(("old", "new"), CALCULATIONS)
def test_nothing_follows_from_another_calculation(middle: Engine, old: str, new: str) -> None:
    line = "    return width {}\n"
    text = line.format(new) + line.format(old) * 3
    assert answered(middle, NextEditRequest("n", text, (Hunk(0, line.format(old), line.format(new)),)))[0] == ()


def test_the_deadline_ends_it(middle: Engine) -> None:
    edits, done = answered(middle, NextEditRequest("n", TEXT, (CHANGED,)), time.monotonic())
    assert edits == ()
    assert done.outcome is Outcome.DEADLINE


def test_a_model_that_fills_no_middle_finds_none(embedded: Engine) -> None:
    assert answered(embedded, NextEditRequest("n", TEXT, (CHANGED,)))[0] == ()
