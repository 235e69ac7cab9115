"""A suggestion under editing: shown while it still continues the typed text, and never with a different result."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.messages import HoleKind
from lsp_server.carve import Span
from lsp_server.documents.change import Change
from lsp_server.inline.suggestion import Anchor, Cursor, Suggestion
from tests.lsp_server.inline.typing_user import TypingUser, suggestion


def test_other_text_hides_it_until_deleted() -> None:
    user = TypingUser.at("x = ‸\n", suggestion("x = ‸\n", "foo"))
    user.type("g")
    assert user.shown() == []
    user.delete()
    assert user.shown() == ["x = [foo]\n"]


def test_what_is_deleted_in_front_of_it_becomes_part_of_it() -> None:
    user = TypingUser.at("value = ‸\n", suggestion("value = ‸\n", "foo"))
    user.delete(2)
    assert user.shown() == ["value [= foo]\n"]
    user.type("= f")
    assert user.shown() == ["value = f[oo]\n"]


def test_a_begun_word_is_replaced() -> None:
    user = TypingUser.at("pri‸\n", suggestion("pri‸\n", "print(x)", replaces=("pri", "")))
    user.delete(2)
    assert user.shown() == ["p[rint(x)]\n"]
    user.type("r")
    assert user.shown() == ["pr[int(x)]\n"]


def test_brackets_that_the_editor_closes_are_part_of_it() -> None:
    user = TypingUser.at("x = ‸\n", suggestion("x = ‸\n", "foo(bar[0])"))
    user.type("foo")
    user.type("(", closed=")")
    assert user.shown() == ["x = foo([bar[0])]\n"]
    user.type("bar")
    user.type("[", closed="]")
    user.type("0")
    assert user.shown() == ["x = foo(bar[0[])]\n"]
    user.cursor += 1  # typed over the bracket that the editor closed
    assert user.shown() == ["x = foo(bar[0][)]\n"]


def test_quotes_that_the_editor_closes_are_part_of_it() -> None:
    user = TypingUser.at("x = ‸\n", suggestion("x = ‸\n", "f('a')"))
    user.type("f(", closed=")")
    user.type("'", closed="'")
    assert user.shown() == ["x = f('[a')]\n"]


def test_a_bracket_that_nobody_opened_is_no_part_of_it() -> None:
    user = TypingUser.at("x = ‸\n", suggestion("x = ‸\n", "foo"))
    user.type("f", closed=")")
    assert user.shown() == []


def test_enter_and_indentation_can_be_typed_through() -> None:
    user = TypingUser.at("def f():‸\n", suggestion("def f():‸\n", "\n    return 1"))
    user.type("\n    ")
    (shown,) = user.history.find(user.text, Cursor(user.cursor), invoked=False)
    assert (shown[1].start, shown[1].end, shown[1].text) == (9, 13, "    return 1"), "what is replaced is on one line"


@pytest.mark.parametrize("outer", ["", "    "])
def test_enter_between_two_braces_keeps_it(outer: str) -> None:
    """The editor puts the second brace on a line of its own, where the suggestion has it, too."""
    here = f"{outer}f() {{‸}}\n"
    user = TypingUser.at(here, suggestion(here, f"\n{outer}    a()\n{outer}"))
    assert user.shown()
    user.type(f"\n{outer}    ", closed=f"\n{outer}")
    assert user.shown() == [f"{outer}f() {{\n{outer}    [a()]\n{outer}}}\n"]
    user.type("a")
    assert user.shown() == [f"{outer}f() {{\n{outer}    a[()]\n{outer}}}\n"]


@pytest.mark.parametrize("typed", ["\n", "\n\t", "\n        "])
def test_another_indentation_than_the_suggested_one_hides_it(typed: str) -> None:
    user = TypingUser.at("def f():‸\n", suggestion("def f():‸\n", "\n    return 1"))
    user.type(typed)
    assert user.shown() == ([] if typed != "\n" else ["def f():\n[    return 1]\n"])


@pytest.mark.parametrize(
    ("here", "change", "shown"),
    [
        pytest.param("x = ‸\n", (0, 0, "import foo\n"), ["import foo\nx = [a]\n"], id="it moves with what comes above"),
        pytest.param("x = ‸\n", (0, 0, "ma"), [], id="a longer name in front makes it stale"),
        pytest.param("x = ‸\n", (0, 0, "# a comment\n" * 30), [], id="it is gone once much has changed elsewhere"),
        pytest.param("f(‸)\n", (2, 3, ""), [], id="it is gone when what follows it is deleted"),
    ],
)
def test_change_elsewhere(here: str, change: tuple[int, int, str], shown: list[str]) -> None:
    user = TypingUser.at(here, suggestion(here, "a"))
    user.change(*change)
    assert user.shown() == shown


def test_change_in_front_makes_it_stale_until_undone() -> None:
    user = TypingUser.at("x: int = ‸\n", suggestion("x: int = ‸\n", "foo"))
    user.change(3, 6, "str")
    assert user.shown() == []
    user.type("f")
    assert user.shown() == []
    user.change(3, 6, "int")
    assert user.shown() == ["x: int = f[oo]\n"]


def test_what_is_typed_over_a_stale_one_rejects_nothing() -> None:
    user = TypingUser.at("x = ‸\n", suggestion("x = ‸\n", "foo"))
    user.shown()
    user.change(0, 1, "yy")
    user.type("bars")
    user.delete(4)
    user.change(0, 2, "x")
    assert user.shown() == ["x = [foo]\n"]


def test_deleting_in_front_does_not_revive_it() -> None:
    user = TypingUser.at("x = 1 + ‸\n", suggestion("x = 1 + ‸\n", "foo"))
    user.change(4, 5, "2")
    user.delete(4)
    user.type("2 + ")
    assert user.shown() == []


def test_in_the_middle_of_what_was_typed_of_it_nothing_is_shown() -> None:
    user = TypingUser.at("x = ‸\n", suggestion("x = ‸\n", "foo(bar)"))
    user.type("foo")
    user.cursor -= 1
    assert user.shown() == []


def test_suggestion_extends_the_selected_item() -> None:
    made = suggestion("x = os.pa‸\n", "path.join(a)", replaces=("pa", ""))
    text = "x = os.pa\n"
    shown = made.at(text, Cursor(9, (7, 9, "path")))
    assert (shown.start, shown.end, shown.text) == (7, 9, "path.join(a)")
    assert made.at(text, Cursor(9, (7, 9, "pardir"))) is None


TEXTS = st.text("ab(\n", max_size=6)


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, Suggestion, list[Change]]:
    """A text, a suggestion in it, and changes of it."""
    text = draw(TEXTS) + draw(TEXTS)
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, len(text)))
    cursor = draw(st.integers(start, end))
    made = Suggestion("s", Anchor.of(text, start, end, cursor), draw(TEXTS), Span(start, end, HoleKind.LINE))
    changes, now, follows = [], text, draw(st.booleans())
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(now)))
        removed = now[at : draw(st.integers(at, min(at + 2, len(now))))]
        added = draw(st.sampled_from([*made.text, "()", "[]", ""]) if follows and made.text else TEXTS)
        changes.append(Change(at, removed, added))
        now = changes[-1].applied(now)
    return text, made, changes


@given(edits())
def test_typing_through_gives_the_suggested_text(edited: tuple[str, Suggestion, list[Change]]) -> None:
    """At its own range each suggestion leads to the same text; changes elsewhere happen in that text, too."""
    text, made, changes = edited
    expected, found = made.applied(text), made
    for change in changes:
        anchor, moved = found.anchor, found.after(change)
        if moved is None:
            return
        if change.end < anchor.start:
            expected = change.applied(expected)
        elif change.start > anchor.end:
            shift = len(found.text) - (anchor.end - anchor.start)
            expected = Change(change.start + shift, change.removed, change.added).applied(expected)
        found, text = moved, change.applied(text)
        assert found.applied(text) == expected
        for offset in range(len(text) + 1):
            shown = found.at(text, Cursor(offset))
            if shown is not None:
                assert text[: shown.start] + shown.text + text[shown.end :] == expected
                assert "\n" not in text[shown.start : shown.end]
                assert shown.start <= offset <= shown.end


@given(st.text("abc()[]' \n", min_size=1, max_size=12), st.text("abc()[]' ", max_size=6))
def test_typed_character_by_character_it_is_shown_until_its_end(text: str, before: str) -> None:
    made = suggestion(f"{before}‸\nz\n", text)
    user = TypingUser.at(f"{before}‸\nz\n", made)
    for typed, character in enumerate(text):
        assert user.shown() == [f"{before}{text[:typed]}[{text[typed:]}]\nz\n"]
        user.type(character)
    assert user.shown() == []
