"""A causal model judges the proposals after a change: real passes of a small model that knows no code."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from inference.deadline import Deadline
from inference.engine.engine import Engine
from inference.engine.errors import RequestError
from inference.engine.next_edit.judging import NextEditJudgeRun, changes_alone
from inference.messages import (
    MAX_PROPOSALS,
    MAX_PROPOSED_CHARACTERS,
    Done,
    Hunk,
    NextEditRequest,
    NextEdits,
    Outcome,
    ScoredEdit,
)

TEXT = "def area(width):\n    return width * 2\n\n\nprint(area(1))\nprint(hight)\n"
CHANGED = Hunk(1, "    return hight * 2\n", "    return width * 2\n")
LINE = (TEXT.index("print(hight)"), len(TEXT))
EDITS = (ScoredEdit(*LINE, "print(width)\n" * 20), ScoredEdit(*LINE, "print(width)\n"))
"""Each token makes a text less likely."""


def request(*proposals: ScoredEdit, hunk: Hunk = CHANGED) -> NextEditRequest:
    return NextEditRequest("n", TEXT, (hunk,), proposals=proposals)


def answered(
    engine: Engine, asked: NextEditRequest, deadline: Deadline | None = None
) -> tuple[Sequence[ScoredEdit], Done]:
    work = NextEditJudgeRun(engine.loaded, asked, deadline, margin=-1e9)
    edits, done = [event for event in work if event is not None]
    assert edits.id == done.id == asked.id
    return edits.edits, done


@pytest.mark.parametrize("hunk", [CHANGED, Hunk(90, "a\n", "b\n"), Hunk(1, "", "")])
def test_of_the_edits_of_one_place_the_likeliest_is_found(middle: Engine, hunk: Hunk) -> None:
    edits, done = answered(middle, request(*EDITS, hunk=hunk))
    assert done.outcome is Outcome.COMPLETE
    assert [(edit.start, edit.end, edit.text) for edit in edits] == [(*LINE, "print(width)\n")]


def test_nothing_is_offered_below_the_margin_or_unproposed(middle: Engine) -> None:
    work = NextEditJudgeRun(middle.loaded, request(*EDITS), None, margin=1e9)
    assert next(event for event in work if isinstance(event, NextEdits)).edits == ()
    assert answered(middle, request())[0] == ()


@pytest.mark.parametrize("proposals", [(), EDITS, (ScoredEdit(0, 17, "def area(hight):\n"),)])
def test_for_a_region_the_model_writes_an_edit_too(middle: Engine, proposals: tuple[ScoredEdit, ...]) -> None:
    work = NextEditJudgeRun(middle.loaded, replace(request(*proposals), regions=(LINE,)), None, margin=-1e9)
    edits = next(event for event in work if isinstance(event, NextEdits)).edits
    assert {(edit.start, edit.end) for edit in edits} <= {LINE, *((edit.start, edit.end) for edit in proposals)}
    assert len(edits) >= bool(proposals) and work.passes > 0
    assert all(edit.text.strip() and edit.text != TEXT[edit.start : edit.end] for edit in edits)


def test_what_the_model_writes_is_judged_with_each_change_alone() -> None:
    assert changes_alone("imfrom a\n", "from a, b\n") == ["from a\n", "imfrom a, b\n"]


@pytest.mark.parametrize(
    "proposals",
    [
        (ScoredEdit(-1, 4, "x"),),
        (ScoredEdit(4, 4, "x"),),
        (ScoredEdit(0, 4, "x" * (MAX_PROPOSED_CHARACTERS + 1)),),
        EDITS * MAX_PROPOSALS,
    ],
)
def test_proposals_that_make_no_sense_are_refused(middle: Engine, proposals: tuple[ScoredEdit, ...]) -> None:
    with pytest.raises(RequestError, match="at most"):
        middle.next_edits(request(*proposals))
    with pytest.raises(RequestError, match="edits of the text"):
        middle.next_edits(replace(request(), regions=((4, len(TEXT) + 1),)))


@pytest.mark.parametrize(("texts", "offers"), [(0, ()), (1, ()), (2, EDITS[:1])])
def test_at_the_deadline_what_was_scored_is_offered(middle: Engine, texts: int, offers: tuple[ScoredEdit, ...]) -> None:
    answered(middle, request(*EDITS))  # has read the changes
    deadline = Deadline(60_000)
    work = NextEditJudgeRun(middle.loaded, request(*EDITS), deadline, margin=-1e9)
    assert [next(work) for _ in range(texts)] == [None] * texts
    object.__setattr__(deadline, "timeout_ms", 0)
    edits, done = [event for event in work if event is not None]
    assert isinstance(edits, NextEdits) and [edit.text for edit in edits.edits] == [edit.text for edit in offers]
    assert isinstance(done, Done) and (done.outcome, done.stats.steps) == (Outcome.DEADLINE, texts)


def test_a_model_that_fills_no_middle_finds_none(embedded: Engine) -> None:
    assert answered(embedded, request(*EDITS))[0] == ()
