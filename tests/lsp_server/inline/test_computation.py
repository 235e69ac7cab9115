"""Typing into a hole during its fill."""

import pytest

from inference.messages import Draft, FilledHoles
from lsp_server import holes
from lsp_server.documents.change import TextChange
from lsp_server.documents.document import Document
from lsp_server.fill.pipeline import FillResult
from lsp_server.inline.anchor import Cursor
from lsp_server.inline.computation import FillComputation
from lsp_server.inline.request import InlineRequest
from lsp_server.inline.suggestion import GhostText
from tests.lsp_server.fixtures import with_cursor
from tests.lsp_server.inline.typing_user import MANY


def computation_at(marked: str, *, sent: bool = True) -> FillComputation:
    text, cursor = with_cursor(marked)
    snapshot = Document("file:///a.py", "python", 1, text).snapshot()
    hole = holes.hole_at_cursor(snapshot, cursor)
    request = InlineRequest(Cursor(cursor), MANY, holes.DEFAULT_MARKER)
    return FillComputation(snapshot, hole, request, is_sent=sent)


def types(computation: FillComputation, *keys: str) -> bool:
    """Whether the computation goes on while these are typed at its cursor, one after the other."""
    return all(
        computation.follow(TextChange(computation.anchor.start + len(computation.typed), "", key)) for key in keys
    )


@pytest.mark.parametrize(
    ("marked", "keys", "typed"),
    [
        ("x = ‸\n", ["f", "o"], "fo"),
        pytest.param("x = pri‸\n", ["n"], "prin", id="the whole of a begun word"),
        ("def f():‸\n", ["\n", "    ", "r"], "\n    r"),
    ],
)
def test_text_typed_on_does_not_stop_it(marked: str, keys: list[str], typed: str) -> None:
    computation = computation_at(marked)
    assert not computation.was_typed_in
    assert types(computation, *keys)
    assert computation.was_typed_in
    assert computation.typed == typed


@pytest.mark.parametrize("typed", ["\n\t", "x", "\n    \n"])
def test_what_the_fill_cannot_begin_with_stops_it(typed: str) -> None:
    assert not types(computation_at("def f():‸\n"), typed)


@pytest.mark.parametrize("typed", ["()", "''", "\n"])
def test_line_gets_no_break_and_no_extra_bracket(typed: str) -> None:
    assert not types(computation_at("x = ‸\n"), "f", typed)


@pytest.mark.parametrize("fill", ["b|)", "b);", "b) + g(c)", "d's|\")", 'b") + g("c")'])
def test_the_cursor_stays_before_closers_that_nothing_follows(fill: str) -> None:
    marked = 'f("‸")\n' if '"' in fill else "f(‸)\n"
    (shown, is_inside, rest), (text, cursor) = fill.partition("|"), with_cursor(marked)
    result = FillResult([FilledHoles("r", (shown + rest,))], is_late=False)
    (suggestion,) = computation_at(marked).suggestions(result)
    end = cursor if is_inside else len(text) - 1
    assert suggestion.ghost_text(text, Cursor(cursor)) == GhostText(cursor, end, shown)


def test_a_draft_that_has_not_come_so_far_contradicts_nothing() -> None:
    computation = computation_at('f("‸")\n')
    assert types(computation, *'a", bc')
    for piece, contradicts in (("a", False), ('a", b', False), ('a", bcd', False), ("b", True), ('a", d', True)):
        computation.draft = Draft("r", 1, 8, ((piece,),), ((1.0,),))
        assert computation.contradicts_typed is contradicts


def test_a_computation_that_was_not_sent_is_begun_again() -> None:
    """It costs nothing, and the hole may be another one now."""
    assert not types(computation_at("x = ‸\n", sent=False), "f")


@pytest.mark.parametrize(
    "marked",
    [
        "x: int = ‸\n",
        "f(\n    int,\n    ‸\n)\n",
        "f(\n    int,\n    a=‸)\n",
        "def f(a: int) -> ‸:\n    pass\n",
        "def f(a: int):\n    ‸\n",
        "if a:\n    pass\nelif int == ‸:\n    pass\n",
    ],
)
def test_only_changes_in_its_own_statement_count(marked: str) -> None:
    """The statement may begin lines above the cursor; on a blank line the one above it counts."""
    before = "int = 1\n"
    computation, (text, cursor) = computation_at(before + marked), with_cursor(before + marked)
    (suggestion,) = computation.suggestions(FillResult([FilledHoles("r", ("1",))], is_late=False))
    at = len(before) + marked.index("int")
    assert suggestion.ghost_text(text.replace("int", "str", 1), Cursor(cursor))
    assert suggestion.ghost_text(text[:at] + "str" + text[at + 3 :], Cursor(cursor)) is None


@pytest.mark.parametrize(
    "change", [TextChange(4, "f", ""), TextChange(3, " ", ""), TextChange(4, "", "g"), TextChange(4, "f", "g")]
)
def test_anything_but_more_text_at_the_cursor_stops_it(change: TextChange) -> None:
    computation = computation_at("x = ‸\n")
    assert types(computation, "f")
    assert not computation.follow(change)


def test_text_inserted_above_moves_it() -> None:
    computation = computation_at("x = ‸\n")
    assert computation.follow(TextChange(0, "", "import os\n"))
    assert types(computation, "f")
    assert computation.anchor.start == len("import os\nx = ")
