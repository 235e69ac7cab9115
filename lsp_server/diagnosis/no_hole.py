"""Why nothing happens at a place in a document, in words for the user. Knows no LSP types, and opens nothing."""

from lsp_server import carve
from lsp_server.documents.document import Snapshot
from lsp_server.syntax.languages import table_of
from lsp_server.syntax.lines import is_word


def why_no_hole(snapshot: Snapshot, offset: int, marker: str) -> str | None:
    """Why no inline completion comes at `offset`; None where there is a hole for one."""
    hole = carve.at_cursor(snapshot, offset, marker)
    if hole is None:
        return _why_not_carved(snapshot, offset)
    if snapshot.lines.line_of(hole.start) != snapshot.lines.line_of(hole.end):
        return "the hole here spans several lines, and editors show nothing over those: use the code action"
    return None


def _why_not_carved(snapshot: Snapshot, offset: int) -> str:
    """The reasons that `carve.at_cursor` has for None, told by the text around."""
    text, word_characters = snapshot.text, table_of(snapshot.language_id).word_characters
    before, after = text[max(0, offset - 1) : offset], text[offset : offset + 1]
    if before and after and is_word(before, word_characters) and is_word(after, word_characters):
        return "the cursor is in the middle of a word: go to its end"
    line = snapshot.lines.line_of(offset)
    if text[offset : snapshot.lines.line_end(line)].strip():
        return "there is code right of the cursor: go to the end of the line, inside brackets, or to an empty line"
    return "the block of this line is there already: go into it, or to an empty line"
