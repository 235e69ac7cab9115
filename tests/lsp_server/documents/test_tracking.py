"""The place of an accepted text after each change, and how much of it is left."""

import pytest

from lsp_server.documents.change import Change
from lsp_server.documents.tracking import ExpectedEdit, TextRange, smallest

BEFORE = "ab[taken]yz"
"""What is between the brackets was taken."""


@pytest.mark.parametrize(
    ("removed", "added", "after"),
    [
        ("", "x", None),  # elsewhere: see below
        ("ab", "", "taken"),
        ("taken", "", ""),
        ("ken", "lk", "talk"),
        ("taken", "TAKEN", "TAKEN"),
        ("btak", "", "en"),
        ("keny", "", "ta"),
        ("abtakenyz", "a b taken y z", "taken"),
        ("abtakenyz", "", ""),
        ("btakeny", "x", "x"),
        ("btakeny", "something that is much longer", "unknown"),
    ],
)
def test_a_taken_text_is_followed_through_any_change(removed: str, added: str, after: str | None) -> None:
    text = BEFORE.replace("[", "").replace("]", "")
    place = TextRange(2, 7)
    for start in range(len(text) + 1) if after is None else [text.index(removed)]:
        change = smallest(Change(start, removed, added))
        moved = place.after(change, "taken")
        stands = moved.of(change.applied(text)) if moved else "unknown"
        inside = 2 < start < 7
        assert stands == (after if after is not None else f"{text[2:start]}x{text[start:7]}" if inside else "taken")


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
    assert TextRange(*place).after(change, grows=True) == (expected and TextRange(*expected))


def test_an_expected_edit_says_where_its_texts_stand() -> None:
    edit = ExpectedEdit("f(?, ??)", [TextRange(2, 3), TextRange(5, 7)], ["first", ""])
    assert (edit.text, edit.places) == ("f(first, )", (TextRange(2, 7), TextRange(9, 9)))
    assert not edit.has_happened([Change(2, "?", "first")], "f(first, ??)")
    assert not edit.is_given_up
    assert edit.has_happened([Change(9, "??", "")], "f(first, )")


def test_an_edit_is_given_up_once_other_text_is_typed() -> None:
    edit = ExpectedEdit("f(?)", [TextRange(2, 3)], ["x"])
    assert not edit.has_happened([Change(0, "f", "g")], "g(?)")
    assert edit.is_given_up
