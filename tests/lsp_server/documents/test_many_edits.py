"""Thousands of edits in one message: the same text as one by one, in time that grows with the message."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents.document import MANY_EDITS, Document, Edit
from lsp_server.documents.positions import Encoding
from tests.lsp_server.documents.reference import ReferenceText
from tests.lsp_server.documents.test_document import assert_parsed_as_if_new
from tests.lsp_server.documents.test_document import edits as any_edits
from tests.lsp_server.test_growth import MOST_GROWTH, SMALL_S
from tests.lsp_server.texts import texts

NOTHING = Edit((0, 0), (0, 0), "")
EDITS = 1200
SHAPES = {
    "lines from the last to the first": ("value = 1\n", lambda at, count: (count - at - 1, 5)),
    "lines from the first to the last": ("value = 1\n", lambda at, _: (at, 5)),
    "lines here and there": ("wert = 'é😀'\r\n", lambda at, count: (at * 7919 % count, 5)),
}


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


@pytest.mark.parametrize("shape", SHAPES)
def test_many_edits_take_proportional_time(shape: str) -> None:
    def seconds(count: int) -> float:
        line, place = SHAPES[shape]
        document = Document("file:///a.py", "python", 0, line * count)
        document.snapshot()
        edits = [Edit(place(at, count), place(at, count), "x") for at in range(count)]
        began = time.thread_time()
        document.apply(edits, 1, Encoding.UTF16)
        return time.thread_time() - began

    short = max(min(seconds(EDITS) for _ in range(2)), SMALL_S)
    assert min(seconds(4 * EDITS) for _ in range(2)) < MOST_GROWTH * short
