"""Changes of a text, the smallest one between two texts, and the place of an accepted text after each change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents.change import Change, TextRange, difference, smallest

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


def test_a_whole_text_that_is_sent_again_moves_nothing() -> None:
    change = smallest(Change(0, "ab taken yz", "ab taken yz!"))
    assert (change.start, change.removed, change.added) == (11, "", "!")


@pytest.mark.parametrize(
    ("place", "change", "expected"),
    [
        ((4, 4), Change(4, "", "new"), (4, 7)),
        ((4, 6), Change(6, "", "new"), (4, 9)),
        ((4, 6), Change(4, "", "new"), (4, 9)),
        ((4, 7), Change(4, "???", "a much longer text"), (4, 22)),
        ((4, 6), Change(0, "ab", "c"), (3, 5)),
        ((4, 6), Change(2, "ab", ""), (2, 4)),
        ((4, 6), Change(6, "ab", ""), (4, 6)),
        ((4, 8), Change(5, "ab", "c"), (4, 7)),
        ((4, 4), Change(0, "abcdefgh", "x" * 20), None),
    ],
)
def test_a_range_that_grows_takes_in_text_at_its_edges(
    place: tuple[int, int], change: Change, expected: tuple[int, int] | None
) -> None:
    assert TextRange(*place).after(change) == (expected and TextRange(*expected))
