"""Suggestions as list items: which of them have a label."""

from inference.messages import HoleKind
from lsp_server.documents.document import Document
from lsp_server.documents.positions import Encoding
from lsp_server.holes import HoleSpan
from lsp_server.inline.anchor import Anchor, Cursor
from lsp_server.inline.suggestion import Suggestion
from lsp_server.lsp.completion_items import completion_item


def test_what_is_typed_up_to_its_last_line_end_is_no_item() -> None:
    """As between two braces: an item whose text is white space has nothing that a list could show."""
    body = Suggestion("s", Anchor.from_text("f {}\n", 3, 3, 3), "\n  g()\n", HoleSpan(3, 3, HoleKind.BODY))
    for typed, shown in (("\n  g(", "  g()\n"), ("\n  g()", "  g()\n")):
        text = f"f {{{typed}}}\n"
        suggestion = Suggestion(body.id, Anchor(3, 3 + len(typed), "", 0, "f {"), body.text, body.hole)
        cursor = 3 + len(typed)
        found = suggestion.ghost_text(text, Cursor(cursor))
        assert found.text == shown
        item = completion_item(Document("file:///a.c", "c", 1, text), cursor, 0, (suggestion, found), Encoding.UTF16)
        assert (item and item.label) == (")" if typed.endswith("(") else None)


def test_an_item_ends_before_closers_that_it_would_replace() -> None:
    text = 'f(["ba"])\n'
    suggestion = Suggestion("s", Anchor.from_text(text, 4, 9, 6), 'bar", (1)])', HoleSpan(4, 9, HoleKind.LINE))
    shown = suggestion.ghost_text(text, Cursor(6))
    item = completion_item(Document("file:///a.c", "c", 1, text), 6, 0, (suggestion, shown), Encoding.UTF16)
    assert (item.text_edit.new_text, item.text_edit.range.end.character) == ("bar", 6)
