"""A suggestion under editing: shown while it still continues the typed text, and never with a different result."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.messages import HoleKind
from lsp_server.documents.change import TextChange
from lsp_server.holes import HoleSpan
from lsp_server.inline.anchor import Anchor, Cursor
from lsp_server.inline.request import InlineRequest
from lsp_server.inline.suggestion import Suggestion
from tests.lsp_server.inline.typing_user import MANY, TypingUser, suggestion

STORIES = {
    "other text hides it until that is deleted": ("x = ‸\n", "foo", "g", [], "⌫", ["x = [foo]\n"]),
    "what is deleted in front becomes part of it": (
        *("value = ‸\n", "foo", "⌫⌫", ["value [= foo]\n"]),
        *("= f", ["value = f[oo]\n"]),
    ),
    "brackets that the editor closes are part of it": (
        *("x = ‸\n", "foo(bar[0])", "foo", "(¦)", ["x = foo([bar[0])]\n"]),
        *("bar", "[¦]", "0", ["x = foo(bar[0[])]\n"], 1, ["x = foo(bar[0][)]\n"]),
    ),
    "in the middle of what was typed nothing is shown": ("x = ‸\n", "foo(bar)", "foo", -1, []),
    "so are quotes": ("x = ‸\n", r"f('\\')", "f(¦)", "'¦'", "\\", ["x = f('\\[\\')]\n"], "\\", ["x = f('\\\\[')]\n"]),
    "a bracket that nobody opened is no part of it": ("x = ‸\n", "foo", "f¦)", []),
    "a line break alone goes on": ("def f():‸\n", "\n    return 1", "\n", ["def f():\n[    return 1]\n"]),
    "another indentation hides it": ("def f():‸\n", "\n    return 1", "\n\t", []),
    "it moves with what comes above": ("x = ‸\n", "a", (0, 0, "import foo\n"), ["import foo\nx = [a]\n"]),
    "a longer name in front makes it stale": ("x = ‸\n", "a", (0, 0, "ma"), []),
    "it is gone once much has changed elsewhere": ("x = ‸\n", "a", (0, 0, "# a comment\n" * 30), []),
    "it is gone when what follows it is deleted": ("f(‸)\n", "a", (2, 3, ""), []),
    "a change in front makes it stale until undone": (
        *("x: int = ‸\n", "foo", (3, 6, "str"), [], "f", []),
        *((3, 6, "int"), ["x: int = f[oo]\n"]),
    ),
    "what is typed over a stale one rejects nothing": (
        *("x = ‸\n", "foo", ["x = [foo]\n"], (0, 1, "yy"), "bars", "⌫⌫⌫⌫"),
        *((0, 2, "x"), ["x = [foo]\n"]),
    ),
    "deleting in front does not revive it": ("x = 1 + ‸\n", "foo", (4, 5, "2"), "⌫⌫⌫⌫", "2 + ", []),
    "what is shown and typed over is rejected": (
        *("x = ‸\n", "foo", ["x = [foo]\n"], "b", "a", "r", (4, 7, "")),
        *("f", "⌫", []),
    ),
    "a slip of a key rejects nothing": ("x = ‸\n", "foo", ["x = [foo]\n"], "b", "a", "⌫", "⌫", ["x = [foo]\n"]),
    "what was never shown cannot be typed over": ("x = ‸\n", "foo", "b", "a", "r", "⌫", "⌫", "⌫", ["x = [foo]\n"]),
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_what_is_shown_while_the_text_changes(story: tuple[Any, ...]) -> None:
    here, text, *steps = story
    TypingUser.at(here, suggestion(here, text)).play(*steps)


@pytest.mark.parametrize("outer", ["", "    "])
def test_enter_between_two_braces_keeps_it(outer: str) -> None:
    """The editor puts the second brace on a line of its own, where the suggestion has it, too."""
    here = f"{outer}f() {{‸}}\n"
    user = TypingUser.at(here, suggestion(here, f"\n{outer}    a()\n{outer}"))
    assert user.shown()
    user.play(f"\n{outer}    ¦\n{outer}", [f"{outer}f() {{\n{outer}    [a()]\n{outer}}}\n"])
    user.play("a", [f"{outer}f() {{\n{outer}    a[()]\n{outer}}}\n"])
    assert user.history.get("s").shown_from == len("\n")


def test_a_begun_word_is_replaced() -> None:
    user = TypingUser.at("pri‸\n", suggestion("pri‸\n", "print(x)", replaces=("pri", "")))
    user.play("⌫⌫", ["p[rint(x)]\n"], "r", ["pr[int(x)]\n"])


def test_replaced_closers_can_be_typed_over() -> None:
    user = TypingUser.at("f(‸)\n", suggestion("f(‸)\n", "foo(a)) + 1", replaces=("", ")")))
    user.play("foo", "(¦)", "a", 1, ["f(foo(a)[) + 1]\n"], 1, ["f(foo(a))[ + 1]\n"], " ", ["f(foo(a)) [+ 1]\n"])
    user = TypingUser.at('f("‸")\n', suggestion('f("‸")\n', '(a", b[0]) + 1', replaces=("", '")')))
    user.play("(", ['f("([a", b[0]) + 1]\n'], "a", 1, ", b", "[¦]", ['f("(a", b[[0]) + 1]\n'], "0", 2)


def test_what_is_replaced_is_on_one_line() -> None:
    user = TypingUser.at("def f():‸\n", suggestion("def f():‸\n", "\n    return 1"))
    user.type("\n    ")
    ((_, shown),) = user.history.suggestions_for(InlineRequest(Cursor(user.cursor), MANY, "???"))
    assert (shown.start, shown.end, shown.text) == (9, 13, "    return 1")


TEXTS = st.text("ab(\n", max_size=6)


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, Suggestion, list[TextChange]]:
    """A text, a suggestion in it, and changes of it."""
    text = draw(TEXTS) + draw(TEXTS)
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, len(text)))
    cursor = draw(st.integers(start, end))
    made = Suggestion("s", Anchor.from_text(text, start, end, cursor), draw(TEXTS), HoleSpan(start, end, HoleKind.LINE))
    changes, now, follows = [], text, draw(st.booleans())
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(now)))
        removed = now[at : draw(st.integers(at, min(at + 2, len(now))))]
        added = draw(st.sampled_from([*made.text, "()", "[]", ""]) if follows and made.text else TEXTS)
        changes.append(TextChange(at, removed, added))
        now = changes[-1].apply_to(now)
    return text, made, changes


def applied(made: Suggestion, text: str) -> str:
    return text[: made.anchor.start] + made.text + text[made.anchor.end :]


@given(edits())
def test_typing_through_gives_the_suggested_text(edited: tuple[str, Suggestion, list[TextChange]]) -> None:
    """At its own range each suggestion leads to the same text; changes elsewhere happen in that text, too."""
    text, made, changes = edited
    expected, found = applied(made, text), made
    for change in changes:
        anchor, moved = found.anchor, found.after_change(change)
        if moved is None:
            return
        if change.end < anchor.start:
            expected = change.apply_to(expected)
        elif change.start > anchor.end:
            shift = len(found.text) - (anchor.end - anchor.start)
            expected = TextChange(change.start + shift, change.removed, change.added).apply_to(expected)
        found, text = moved, change.apply_to(text)
        assert applied(found, text) == expected
        for offset in range(len(text) + 1):
            shown = found.ghost_text(text, Cursor(offset))
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
