"""The place of an accepted text after each change, and how much of it is left."""

import pytest

from lsp_server.documents.change import Change, TextRange, smallest


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
