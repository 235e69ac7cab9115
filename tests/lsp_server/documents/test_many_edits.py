"""Many edits in one message leave the editor's text, and count as one change."""

from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents.document import MANY_EDITS, Document, Edit
from lsp_server.documents.positions import Encoding
from tests.lsp_server.documents.reference import ReferenceText
from tests.lsp_server.documents.test_document import assert_parsed_as_if_new
from tests.lsp_server.documents.test_document import edits as any_edits
from tests.lsp_server.texts import texts

NOTHING = Edit((0, 0), (0, 0), "")


def change(edit: Edit) -> dict[str, object]:
    if edit.start is None or edit.end is None:
        return {"text": edit.text}
    start, end = ({"line": line, "character": column} for line, column in (edit.start, edit.end))
    return {"text": edit.text, "range": {"start": start, "end": end}}


@given(text=texts, edits=st.lists(any_edits, max_size=8), encoding=st.sampled_from(Encoding))
def test_many_edits_leave_the_text_that_the_editor_has(text: str, edits: list[Edit], encoding: Encoding) -> None:
    document, reference = Document("file:///a.py", "python", 0, text), ReferenceText(text, encoding)
    document.snapshot()
    before = document.text
    (changed,) = document.apply([*edits, *[NOTHING] * (MANY_EDITS + 1)], 1, encoding)
    for edit in edits:
        reference.apply(change(edit))
    assert document.text == reference.text == changed.applied(before)
    assert_parsed_as_if_new(document.snapshot())
