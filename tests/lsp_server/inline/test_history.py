"""Which suggestions appear automatically, and which only on request: rejected, unsure, undone."""

import pytest

from lsp_server.documents.change import TextChange
from lsp_server.inline.history import MAX_SUGGESTIONS
from tests.lsp_server.inline.typing_user import TypingUser, suggestion

HERE = "x = ‸\n"


def test_what_was_rejected_comes_back_only_on_request() -> None:
    user = TypingUser.at(HERE, suggestion(HERE, "foo", "one"))
    user.history.reject("one")
    assert user.shown() == []
    user.history.add([suggestion(HERE, "foo", "two")])
    assert user.shown() == []
    assert user.shown(invoked=True) == ["x = [foo]\n"]
    assert user.shown() == ["x = [foo]\n"], "the user wants it after all"


def test_what_was_rejected_stays_so_while_it_is_typed() -> None:
    user = TypingUser.at(HERE, suggestion(HERE, "foo", "one"))
    user.history.reject("one")
    user.type("f")
    user.history.add([suggestion("x = f‸\n", "foo", "two", replaces=("f", ""))])
    assert user.shown() == []
    user.history.add([suggestion("x = f‸\n", "find", "three", replaces=("f", ""))])
    assert user.shown() == ["x = f[ind]\n"]


def test_elsewhere_the_same_text_is_another_suggestion() -> None:
    user = TypingUser.at("x = ‸\ny = \n", suggestion(HERE, "foo", "one"))
    user.history.reject("one")
    user.cursor = len("x = \ny = ")
    user.history.add([suggestion("x = \ny = ‸\n", "foo", "two")])
    assert user.shown() == ["x = \ny = [foo]\n"]


def test_what_was_shown_never_shrinks_to_its_start() -> None:
    user = TypingUser.at(HERE, suggestion(HERE, "foo(bar)", "all"))
    assert user.shown(invoked=True) == ["x = [foo(bar)]\n"]
    user.history.add([suggestion(HERE, "foo", "start")])
    assert user.shown() == ["x = [foo(bar)]\n"]
    user.type("f")
    assert user.shown() == ["x = f[oo(bar)]\n"]


def test_on_request_no_automatic_text_is_the_start_of_another() -> None:
    user = TypingUser.at(HERE, suggestion(HERE, "foo", "start"), suggestion(HERE, "foo(bar)", "all"))
    assert user.shown() == ["x = [foo]\n", "x = [foo(bar)]\n"]
    assert user.shown(invoked=True) == ["x = [foo(bar)]\n"]
    user.history.add([suggestion(HERE, "foo", "likeliest", invoked=True)])
    assert user.shown(invoked=True) == ["x = [foo]\n", "x = [foo(bar)]\n"]


def test_the_newest_comes_first_and_each_text_once() -> None:
    user = TypingUser.at(HERE, suggestion(HERE, "foo", "old"), suggestion(HERE, "bar", "older"))
    user.history.add([suggestion(HERE, "bar", "new"), suggestion(HERE, "baz", "newer")])
    assert user.shown() == ["x = [bar]\n", "x = [baz]\n", "x = [foo]\n"]


def test_only_the_latest_are_kept() -> None:
    user = TypingUser.at(HERE)
    for number in range(MAX_SUGGESTIONS + 5):
        user.history.add([suggestion(HERE, str(number), str(number))])
    assert user.history.get("4") is None
    assert user.history.get("5") is not None


@pytest.mark.parametrize(("typed", "undone"), [("word", True), ("w", False), ("\n    ", False)])
def test_a_change_that_brings_an_earlier_text_back_is_an_undo(typed: str, undone: bool) -> None:
    """A single character or an indentation is not: that would be every backspace."""
    user = TypingUser.at(HERE)
    user.type(typed)
    assert not user.history.is_after_undo
    user.delete(len(typed))
    assert user.history.is_after_undo is undone
    user.type(typed)
    assert user.history.is_after_undo is undone, "a redo is like an undo"
    user.type("a")
    assert not user.history.is_after_undo


def test_what_an_editor_has_put_in_without_a_word_is_recognised() -> None:
    user = TypingUser.at(HERE, suggestion(HERE, "foo(bar)", "one"), suggestion(HERE, "other", "two"))
    user.shown()
    user.type("fo")
    change = TextChange(user.cursor, "", "o(bar)")
    user.change(change.start, change.start, change.added)
    taken = user.history.pasted_suggestion([change])
    assert taken.id == "one"


def test_typed_or_unseen_text_was_not_put_in() -> None:
    user = TypingUser.at(HERE, suggestion(HERE, "foo", "one"))
    user.type("foo")
    assert user.history.pasted_suggestion([TextChange(4, "", "foo")]) is None, "nobody has seen it"
    user = TypingUser.at(HERE, suggestion(HERE, "foo", "one"))
    user.shown()
    user.type("f")
    user.type("oo")
    assert user.history.pasted_suggestion([TextChange(5, "", "oo")]) is None, "two letters may be typed at once"


def test_refinement_keeps_text_deleted_in_front() -> None:
    draft = suggestion(HERE, "first(1)", "one")
    user = TypingUser.at(HERE, draft)
    user.delete()
    user.delete()
    assert user.history.insert_refined(draft, "two", "second(2)")
    assert user.shown() == ["x [= second(2)]\n", "x [= first(1)]\n"]


def test_refinement_may_differ_behind_a_closed_bracket() -> None:
    draft = suggestion(HERE, "first(1)", "one")
    user = TypingUser.at(HERE, draft)
    user.type("first(")
    user.change(user.cursor, user.cursor, ")")
    user.cursor = len("x = first(")
    assert user.history.insert_refined(draft, "two", "first(22)")
    assert user.history.get("two") is not None
    assert user.shown()[0].startswith("x = ")
    standing = user.history.get("one")
    assert standing is not None and standing.typed_part(user.text) == "first("


def test_refinement_of_a_changed_statement_is_dropped() -> None:
    draft = suggestion(HERE, "first(1)", "one")
    user = TypingUser.at(HERE, draft)
    user.change(0, 1, "y")
    assert not user.history.insert_refined(draft, "two", "second(2)")


CORRECTED = {
    "one key": ["x", ""],
    "two keys": ["te", ""],
    "each key": ["t", "te", "t", ""],
    "a key more": ["xy", "x", ""],
}


@pytest.mark.parametrize("texts", CORRECTED.values(), ids=CORRECTED)
def test_a_slip_corrected_in_one_message_is_no_undo(texts: list[str]) -> None:
    user = TypingUser.at(HERE, suggestion(HERE, "foo", "one"))
    user.at_once(texts)
    assert not user.history.is_after_undo
    assert user.shown() == ["x = [foo]\n"]


def test_an_undo_in_several_changes_of_one_message_counts() -> None:
    user = TypingUser.at(HERE)
    user.type("word")
    user.at_once(["wo", ""], before="word")
    assert user.history.is_after_undo
