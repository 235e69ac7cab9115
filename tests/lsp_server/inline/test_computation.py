"""What may be typed into a hole while it is being filled, and what the worker is told of it."""

import pytest

from lsp_server import carve
from lsp_server.documents.change import Change
from lsp_server.documents.document import Document
from lsp_server.fill.pipeline import Budget, FillResult
from lsp_server.inline.anchor import Anchor
from lsp_server.inline.computation import Computation

CURSOR = "‸"


def work_at(marked: str, *, sent: bool = True) -> Computation:
    """Work for the hole at the cursor."""
    text, cursor = marked.replace(CURSOR, ""), marked.index(CURSOR)
    snapshot = Document("file:///a.py", "python", 1, text).snapshot()
    hole = carve.at_cursor(snapshot, cursor)
    assert hole is not None
    work = Computation(
        snapshot, hole, Anchor.of(text, hole.start, hole.end, cursor), Budget(1, 1000, None), invoked=False
    )
    work.sent_at = 0.0 if sent else None
    return work


def types(work: Computation, *keys: str) -> bool:
    """Whether the work goes on while these are typed at its cursor, one after the other."""
    return all(work.takes(Change(work.place.start + len(work.typed), "", key)) for key in keys)


def test_the_worker_is_told_all_that_was_typed() -> None:
    work = work_at("x = ‸\n")
    assert types(work, "f", "o")
    assert work.amendment() == "fo"


def test_marks_of_other_holes_are_not_suggested() -> None:
    work = work_at("x = ‸\ny = ???\n")
    filled = FillResult([("???",), ("f(???)",), ("1",)], late=False, confidences=(0.9, 0.8, 0.7))
    assert [suggestion.text for suggestion in work.suggestions(filled)] == ["1"]
    assert types(work, "???")
    assert [suggestion.text for suggestion in work.suggestions(filled)] == ["???", "f(???)", "1"]


def test_of_a_begun_word_the_worker_is_told_the_whole_word() -> None:
    work = work_at("x = pri‸\n")
    assert work.amendment() is None
    assert types(work, "n")
    assert work.amendment() == "prin"


def test_an_indentation_that_the_fill_begins_with_anyway_is_not_told() -> None:
    work = work_at("def f():‸\n")
    assert types(work, "\n", "    ")
    assert work.amendment() is None
    assert types(work, "r")
    assert work.amendment() == "\n    r"


@pytest.mark.parametrize("typed", ["\n\t", "x", "\n    \n"])
def test_what_the_fill_cannot_begin_with_stops_it(typed: str) -> None:
    assert not types(work_at("def f():‸\n"), typed)


@pytest.mark.parametrize("typed", ["()", "''", "\n"])
def test_a_line_gets_no_line_end_and_no_bracket_whose_partner_stands_behind_the_cursor(typed: str) -> None:
    assert not types(work_at("x = ‸\n"), "f", typed)


def test_work_that_was_not_sent_is_begun_anew() -> None:
    """It costs nothing, and the hole may be another one now."""
    assert not types(work_at("x = ‸\n", sent=False), "f")


@pytest.mark.parametrize("change", [Change(4, "f", ""), Change(3, " ", ""), Change(4, "", "g"), Change(4, "f", "g")])
def test_anything_but_more_text_at_the_cursor_stops_it(change: Change) -> None:
    work = work_at("x = ‸\n")
    assert types(work, "f")
    assert not work.takes(change)


def test_text_inserted_above_moves_it() -> None:
    work = work_at("x = ‸\n")
    assert work.takes(Change(0, "", "import os\n"))
    assert types(work, "f")
    assert work.place.start == len("import os\nx = ")
