"""The changes of a document lead from its old text to its new one; its snapshots and slow parses are of one version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents.change import TextChange, TextRange, minimal_change, trim_equal_ends
from lsp_server.documents.document import MAX_EDITS, ContentChange, Document, Snapshot
from lsp_server.documents.positions import Encoding
from lsp_server.syntax.parsing import parse, replace_lone_surrogates
from tests.lsp_server.texts import short_texts, texts

positions = st.tuples(st.integers(0, 12), st.integers(0, 25))
edits = st.one_of(
    st.builds(ContentChange, positions, positions, short_texts),
    st.builds(lambda at, text: ContentChange(at, at, text), positions, short_texts),
    st.builds(lambda text: ContentChange(None, None, text), texts),
)


@given(
    text=texts,
    changes=st.lists(edits, max_size=6),
    encoding=st.sampled_from(Encoding),
    more=st.sampled_from([0, MAX_EDITS + 1]),
)
def test_changes_lead_from_old_text_to_new(
    text: str, changes: list[ContentChange], encoding: Encoding, more: int
) -> None:
    """Many edits in one message count as one change."""
    document = Document("file:///a.py", "python", 0, text)
    first, before = document.snapshot(), document.text
    changed = document.apply([*changes, *[ContentChange((0, 0), (0, 0), "")] * more], 1, encoding)
    assert len(changed) == (1 if more else len(changes))
    for change in changed:
        assert before.startswith(change.removed, change.start)
        before = change.apply_to(before)
    assert before == document.text
    last = document.snapshot()
    assert (first.text, last.text, first.version, last.version) == (replace_lone_surrogates(text), document.text, 0, 1)
    for snapshot in (first, last):
        assert_parsed_as_if_new(snapshot)


def assert_parsed_as_if_new(snapshot: Snapshot) -> None:
    fresh = parse("python", snapshot.text)
    assert str(snapshot.tree.root_node) == str(fresh.root_node)
    assert snapshot.tree.root_node.end_point == fresh.root_node.end_point
    assert snapshot.tree.root_node.byte_range == fresh.root_node.byte_range


def test_an_edit_ends_the_job_and_its_tree_is_not_used() -> None:
    document = Document("file:///slow.py", "python", 0, "x = ???\n" * 20_000)
    job = document.parse_job()
    document.apply([ContentChange((0, 0), (0, 0), "y")], 1, Encoding.UTF16)
    job.run()
    assert job.tree is None
    assert not document.adopt_parse(job)


TEXTS = st.text("ab\n", max_size=12)


@pytest.mark.parametrize(("text", "line", "added"), [("x = 1\r", 1, "y\n"), ("\rx = 1\r", 0, "\n"), ("\r", 1, "a\n")])
def test_lines_that_no_longer_end_with_carriage_returns_alone(text: str, line: int, added: str) -> None:
    """Grammars read such a text with line feeds, so that its tree is of no use once it has one."""
    document = Document("file:///a.py", "python", 0, text)
    document.snapshot()
    document.apply([ContentChange((line, 0), (line, 0), added)], 1, Encoding.UTF16)
    assert_parsed_as_if_new(document.snapshot())


@given(TEXTS, TEXTS)
def test_the_difference_of_two_texts_turns_one_into_the_other(old: str, new: str) -> None:
    change = minimal_change(old, new)
    assert old.startswith(change.removed, change.start)
    assert change.apply_to(old) == new
    assert (change.removed, change.added) == ("", "") or old != new


@given(TEXTS, TEXTS, st.text("xy", min_size=1, max_size=3), st.text("uv", max_size=3))
def test_the_difference_is_no_larger_than_it_has_to_be(before: str, after: str, added: str, removed: str) -> None:
    assert minimal_change(before + removed + after, before + added + after) == TextChange(len(before), removed, added)


def test_a_cursor_follows_what_is_typed_at_it_and_in_front_of_it() -> None:
    assert TextChange(3, "", "ab").move_offset(3) == 5
    assert TextChange(3, "", "ab").move_offset(2) == 2
    assert TextChange(0, "xyz", "").move_offset(2) == 0
    assert TextChange(0, "xyz", "").move_offset(5) == 2


def test_a_whole_text_that_is_sent_again_moves_nothing() -> None:
    change = trim_equal_ends(TextChange(0, "ab taken yz", "ab taken yz!"))
    assert (change.start, change.removed, change.added) == (11, "", "!")


@pytest.mark.parametrize(
    ("place", "change", "expected"),
    [
        ((4, 4), TextChange(4, "", "new"), (4, 7)),
        ((4, 6), TextChange(6, "", "new"), (4, 9)),
        ((4, 6), TextChange(4, "", "new"), (4, 9)),
        ((4, 7), TextChange(4, "???", "a much longer text"), (4, 22)),
        ((4, 6), TextChange(0, "ab", "c"), (3, 5)),
        ((4, 6), TextChange(2, "ab", ""), (2, 4)),
        ((4, 6), TextChange(6, "ab", ""), (4, 6)),
        ((4, 8), TextChange(5, "ab", "c"), (4, 7)),
        ((4, 4), TextChange(0, "abcdefgh", "x" * 20), None),
    ],
)
def test_a_range_that_grows_takes_in_text_at_its_edges(
    place: tuple[int, int], change: TextChange, expected: tuple[int, int] | None
) -> None:
    assert TextRange(*place).after_change(change) == (expected and TextRange(*expected))
