"""The server keeps the editor's text through any typing, and its snapshots never change."""

from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents.document import MANY_EDITS, Document, Edit, Snapshot
from lsp_server.documents.positions import Encoding
from lsp_server.syntax.parsing import parse, well_formed
from tests.lsp_server.texts import short_texts, texts


def opened(text: str, language_id: str = "python") -> Document:
    return Document("file:///a.py", language_id, 0, text)


positions = st.tuples(st.integers(0, 12), st.integers(0, 25))
edits = st.one_of(
    st.builds(Edit, positions, positions, short_texts),
    st.builds(lambda at, text: Edit(at, at, text), positions, short_texts),
    st.builds(lambda text: Edit(None, None, text), texts),
)


@given(text=texts, changes=st.lists(edits, min_size=1, max_size=6))
def test_a_snapshot_stays_the_same_while_the_document_changes(text: str, changes: list[Edit]) -> None:
    document = opened(text)
    kept = [document.snapshot()]
    for version, edit in enumerate(changes, 1):
        document.apply([edit], version, Encoding.UTF8)
        kept.append(document.snapshot())
    for version, snapshot in enumerate(kept):
        assert snapshot.version == version
        assert_parsed_as_if_new(snapshot)
    assert kept[0].text == well_formed(text)


@given(
    text=texts,
    changes=st.lists(edits, max_size=6),
    encoding=st.sampled_from(Encoding),
    more=st.sampled_from([0, MANY_EDITS + 1]),
)
def test_changes_lead_from_old_text_to_new(text: str, changes: list[Edit], encoding: Encoding, more: int) -> None:
    """Many edits in one message count as one change."""
    document = opened(text)
    document.snapshot()
    before = document.text
    changed = document.apply([*changes, *[Edit((0, 0), (0, 0), "")] * more], 1, encoding)
    assert len(changed) == (1 if more else len(changes))
    for change in changed:
        assert before.startswith(change.removed, change.start)
        before = change.applied(before)
    assert before == document.text
    assert_parsed_as_if_new(document.snapshot())


def test_a_change_of_version_alone_shows_in_the_next_snapshot() -> None:
    document = opened("x = 1\n")
    document.snapshot()
    document.apply([], 5, Encoding.UTF16)
    assert document.snapshot().version == 5


def assert_parsed_as_if_new(snapshot: Snapshot) -> None:
    fresh = parse("python", snapshot.text)
    assert str(snapshot.tree.root_node) == str(fresh.root_node)
    assert snapshot.tree.root_node.end_point == fresh.root_node.end_point
    assert snapshot.tree.root_node.byte_range == fresh.root_node.byte_range
