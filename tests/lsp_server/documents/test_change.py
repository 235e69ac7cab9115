"""Changes of a text, and the smallest one between two texts."""

from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents.change import Change, difference

TEXTS = st.text("ab\n", max_size=12)


@given(TEXTS, TEXTS)
def test_the_difference_of_two_texts_turns_one_into_the_other(old: str, new: str) -> None:
    change = difference(old, new)
    assert old.startswith(change.removed, change.start)
    assert change.applied(old) == new
    assert (change.removed, change.added) == ("", "") or old != new


@given(TEXTS, TEXTS, st.text("xy", min_size=1, max_size=3), st.text("uv", max_size=3))
def test_the_difference_is_no_larger_than_it_has_to_be(before: str, after: str, added: str, removed: str) -> None:
    assert difference(before + removed + after, before + added + after) == Change(len(before), removed, added)


def test_a_cursor_follows_what_is_typed_at_it_and_in_front_of_it() -> None:
    assert Change(3, "", "ab").move(3) == 5
    assert Change(3, "", "ab").move(2) == 2
    assert Change(0, "xyz", "").move(2) == 0
    assert Change(0, "xyz", "").move(5) == 2
