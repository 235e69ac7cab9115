"""A fill model may rewrite what begins at the cursor, `|`, unless the user types there, and what uses a change."""

import pytest

from lsp_server.documents.document import Document
from lsp_server.next_edit.cross_file import NextEditInput
from lsp_server.next_edit.regions import lines_to_rewrite, lines_using_change

CALL = "f = load(1)\nuse(\n    f,\n)\ndone()\n"
CHANGED = CALL.replace("load", "open")
BROKEN = "import sys\nimfrom a import b\n"


@pytest.mark.parametrize(
    ("marked", "old", "wanted"),
    [
        (CALL.replace("use", "u|se"), CHANGED, "use(\n    f,\n)\n"),
        ("func f() {\n\tu|se()\n\tend()\n}\n", "func g() {\n\tuse()\n\tend()\n}\n", "\tuse()\n\tend()\n"),
        (CALL.replace("    f", "    f|"), CHANGED, "    f,\n"),
        (CALL.replace("load", "lo|ad"), CHANGED, None),
        (CALL.replace("use", "u|se"), None, None),
        (CALL + "|\n", CHANGED + "\n", None),
        (BROKEN.replace("imfrom", "im|from"), BROKEN.replace("imfrom", "from"), "imfrom a import b\n"),
        (BROKEN.replace("import b", "import b|"), BROKEN.replace("imfrom", "from"), None),
    ],
)
def test_what_begins_at_the_cursor_may_be_written_anew(marked: str, old: str | None, wanted: str | None) -> None:
    cursor, text = marked.index("|"), marked.replace("|", "")
    snapshot = Document("file:///a", "go" if "func" in text else "python", 1, text).snapshot()
    region = lines_to_rewrite(NextEditInput(snapshot, [] if old is None else [old], cursor), text)
    assert (region and text[slice(*region)]) == wanted


DICT = "def f(a: str, b):\n    n: dict = {}\n    g(b)\n    for x in n:\n        h(x)\n    return n\n"
FIELD = "impl S {\n    fn all(&self) -> Vec<u8> {}\n\n    fn p(&self) {\n        d(self.all());\n    }\n}\n"


@pytest.mark.parametrize(
    ("text", "new", "old", "wanted"),
    [
        (DICT, "dict = {}", "list = []", "    for x in n:\n        h(x)\n    return n\n"),
        (DICT.replace("        h(x)\n", "        h(x)\n" * 8), "dict = {}", "list = []", "    return n\n"),
        (FIELD, "Vec", "Option", "        d(self.all());\n"),
    ],
)
def test_what_uses_a_changed_declaration_may_be_written_anew(text: str, new: str, old: str, wanted: str) -> None:
    snapshot = Document("file:///a", "rust" if "fn" in text else "python", 1, text).snapshot()
    region = lines_using_change(NextEditInput(snapshot, [text.replace(new, old)], 0), text)
    assert (region and text[slice(*region)]) == wanted
