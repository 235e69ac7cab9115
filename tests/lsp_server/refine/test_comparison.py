"""The partner's text replaces the draft, unless it breaks the parse or is empty where the draft is not."""

import pytest

from lsp_server import carve
from lsp_server.documents.document import Document
from lsp_server.refine.comparison import is_better

TEXT = "def add(a, b):\n    return ???\n\n\nprint(add(1, ???))\n"


@pytest.mark.parametrize(
    ("draft", "other", "expected"),
    [
        ("zebra ** quux", "a + b", True),
        ("a", "a.b[zebra]", True),  # whatever a small model finds likelier
        ("a + b", "a + b", False),
        ("(a + b", "zebra ** quux", True),
        ("zebra ** quux", "(a + b", False),
        ("(a", "(a + b", True),  # both break the parse
        ("a + b", " ", False),
        ("", "a", True),
    ],
)
async def test_the_better_one_is_found(draft: str, other: str, expected: bool) -> None:
    snapshot = Document("file:///a.py", "python", 1, TEXT).snapshot()
    assert await is_better(snapshot, carve.markers(snapshot, "???"), [draft, "2"], [other, "2"]) is expected
