"""The changes of a document lead from its old text to its new one; its snapshots and slow parses are of one version.

Changes of a text, the smallest one between two texts, and the place of an accepted text after each change.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents.change import Change, TextRange, difference, smallest
from lsp_server.documents.document import MANY_EDITS, Document, Edit, Snapshot
from lsp_server.documents.positions import Encoding
from lsp_server.syntax.parsing import parse, well_formed
from tests.lsp_server.texts import short_texts, texts

positions = st.tuples(st.integers(0, 12), st.integers(0, 25))
edits = st.one_of(
    st.builds(Edit, positions, positions, short_texts),
    st.builds(lambda at, text: Edit(at, at, text), positions, short_texts),
    st.builds(lambda text: Edit(None, None, text), texts),
)


@given(
    text=texts,
    changes=st.lists(edits, max_size=6),
    encoding=st.sampled_from(Encoding),
    more=st.sampled_from([0, MANY_EDITS + 1]),
)
def test_changes_lead_from_old_text_to_new(text: str, changes: list[Edit], encoding: Encoding, more: int) -> None:
    """Many edits in one message count as one change."""
    document = Document("file:///a.py", "python", 0, text)
    first, before = document.snapshot(), document.text
    changed = document.apply([*changes, *[Edit((0, 0), (0, 0), "")] * more], 1, encoding)
    assert len(changed) == (1 if more else len(changes))
    for change in changed:
        assert before.startswith(change.removed, change.start)
        before = change.applied(before)
    assert before == document.text
    last = document.snapshot()
    assert (first.text, last.text, first.version, last.version) == (well_formed(text), document.text, 0, 1)
    for snapshot in (first, last):
        assert_parsed_as_if_new(snapshot)


def assert_parsed_as_if_new(snapshot: Snapshot) -> None:
    fresh = parse("python", snapshot.text)
    assert str(snapshot.tree.root_node) == str(fresh.root_node)
    assert snapshot.tree.root_node.end_point == fresh.root_node.end_point
    assert snapshot.tree.root_node.byte_range == fresh.root_node.byte_range


def slow_document() -> Document:
    return Document("file:///slow.py", "python", 0, "x = ???\n" * 20_000)


def test_slow_text_is_parsed_by_a_job() -> None:
    document = slow_document()
    job = document.parse_job()
    assert document.snapshot(quick=True).tree is None
    job.run()
    assert document.take(job)
    assert job.tree is not None
    assert document.snapshot(quick=True).tree is job.tree


def test_an_edit_ends_the_job_and_its_tree_is_not_used() -> None:
    document = slow_document()
    job = document.parse_job()
    document.apply([Edit((0, 0), (0, 0), "y")], 1, Encoding.UTF16)
    job.run()
    assert job.tree is None
    assert not document.take(job)


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
