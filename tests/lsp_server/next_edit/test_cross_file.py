"""What a change, «old→new», in one document offers, ⟦old→new⟧, in another open one, and that nothing else is.

@ the name of the first document
+ its text
the text of the other one
"""

from pathlib import Path

import pytest

from lsp_server.next_edit.cross_file import ChangedDocument
from lsp_server.next_edit.edits import NextEdit
from lsp_server.next_edit.finder import find_next_edits
from lsp_server.syntax.languages import language_id_of_path
from lsp_server.syntax.parsing import Source
from tests.lsp_server.fixtures import Case, cases
from tests.lsp_server.next_edit.drawing import drawn, read

FIXTURE = Path(__file__).parent / "fixtures" / "cross_file" / "two_documents.txt"


@pytest.mark.parametrize("case", cases(FIXTURE, "@", "+"))
def test_what_is_offered_in_another_document(case: Case) -> None:
    name, drawing = case.expected["@"], f"{case.text}\n"
    before, after, _ = read(f"{case.expected['+']}\n")
    text, _, _ = read(drawing)
    language_id = language_id_of_path(name)
    other = ChangedDocument(f"file:///p/app/{name}", language_id, after, [before])
    now = Source.parse(language_id, text, f"file:///p/app/main.{name.rpartition('.')[2]}")
    offered = [(edit.start, edit.end, edit.text) for edit in find_next_edits(now, [], [other])]
    assert drawn(text, [], sorted(offered)) == drawing


def test_a_line_above_three_classes_belongs_above_the_next() -> None:
    source = Source.parse("typescript", "export class D {\n}\n")
    texts = [f"export class {name} {{\n" for name in "ABC"]
    others = [ChangedDocument(f"file:///{text}", "typescript", f"@compat\n{text}", [text]) for text in texts]
    assert find_next_edits(source, [], others) == [NextEdit(0, 0, "@compat\n")]
    assert find_next_edits(source, [], others[1:]) == []
