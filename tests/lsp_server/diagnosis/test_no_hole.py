"""Every place without a hole has a matching reason, and no other place has one."""

import pytest

from lsp_server import carve
from lsp_server.diagnosis.file_report import why_no_hole
from lsp_server.documents.document import Document
from tests.e2e.editor import CURSOR


def explained(marked: str, language: str = "python") -> str | None:
    offset = marked.index(CURSOR)
    snapshot = Document("file:///a", language, 1, marked.replace(CURSOR, "")).snapshot()
    return why_no_hole(snapshot, offset, carve.DEFAULT_MARKER)


@pytest.mark.parametrize(
    ("marked", "said"),
    [
        ("na‸me = 1\n", "middle of a word"),
        ("‸x = 1\n", "code behind the cursor"),
        ("def f():‸\n    return 1\n", "this line already has its block"),
        ("x = ‸\n", None),
        ("f(a, ‸)\n", None),
        ("def f():\n    ‸\n", None),
        ("x = ‸???\n", None),
    ],
)
@pytest.mark.parametrize("language", ["python", "nothing-we-know"])
def test_a_place_without_a_hole_has_a_reason(marked: str, said: str | None, language: str) -> None:
    why = explained(marked, language)
    if language == "python":
        assert (why is None) == (said is None)
        assert said is None or said in str(why)
    else:
        assert why is None or why.endswith(("go to its end", "or to an empty line"))
