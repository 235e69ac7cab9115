"""An edit model rewrites in this process: the same text with draft tokens and without. A small model."""

import pytest

from inference.deadline import Deadline
from inference.engine.engine import Engine
from inference.engine.next_edit.edit_model import NextEditRewriteRun
from inference.messages import Done, EditKind, Hunk, NextEditRequest, NextEdits, Outcome

TEXT = "def area(width):\n    return width * 2\n\n\nprint(area(1))\nprint(hight)\n"
ASKED = NextEditRequest("n", TEXT, (Hunk(0, "def area(hight):\n", "def area(width):\n"),), "python", "a.py", 20)
KINDS: tuple[EditKind, ...] = ("zeta-2.1", "zeta-2", "zeta", "sweep")


def done(work: NextEditRewriteRun) -> tuple[NextEdits, Done]:
    edits, end = [event for event in work if event is not None]
    assert isinstance(edits, NextEdits) and isinstance(end, Done)
    return edits, end


@pytest.mark.parametrize("kind", KINDS)
def test_draft_tokens_change_no_text(middle: Engine, kind: EditKind) -> None:
    plain, *drafting = (NextEditRewriteRun(middle.loaded, kind, ASKED, None, count) for count in (0, 1, 16))
    edits, end = done(plain)
    assert end.outcome is Outcome.COMPLETE and plain.output and plain.passes > 1
    for work in drafting:
        assert done(work)[0] == edits
        size = min(len(plain.output), len(work.output))  # a pass may end behind the room
        assert work.output[:size] == plain.output[:size] and work.passes <= plain.passes


def test_a_late_rewrite_is_none(middle: Engine) -> None:
    edits, end = done(NextEditRewriteRun(middle.loaded, "sweep", ASKED, Deadline(0)))
    assert (edits.edits, end.outcome) == ((), Outcome.DEADLINE)


def test_an_engine_of_an_edit_model_rewrites(middle: Engine) -> None:
    assert isinstance(Engine(middle.loaded, "zeta").next_edits(ASKED), NextEditRewriteRun)
    assert not isinstance(middle.next_edits(ASKED), NextEditRewriteRun)
