"""The changes of a document lead from its old text to its new one; its snapshots and slow parses are of one version."""

from hypothesis import given
from hypothesis import strategies as st

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
