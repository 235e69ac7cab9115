"""The terminal output of `infill-ls fill` while it works."""

from inference.messages import Draft
from lsp_server import carve
from lsp_server.commands.output import excerpt
from lsp_server.documents.document import Document


def test_neither_draft_nor_document_commands_the_terminal() -> None:
    text = "y = '\x1b]0;title\x07'; x = ???  # \u202e\n"
    snapshot = Document("file:///a.py", "python", 1, text).snapshot()
    draft = Draft("r", 1, 8, (("a", "\x1b[2J", "\u202e"),), ((0.5, 0.5, 0.5),))
    shown = excerpt(snapshot, carve.markers(snapshot), draft).plain
    assert not set(shown) & {"\x1b", "\x07", "\u202e"}
    assert "x = a" in shown
