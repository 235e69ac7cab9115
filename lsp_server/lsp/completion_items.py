"""Suggestions as ghost text, or as items of a completion list, which are exact edits and not insertions."""

import re
from collections.abc import Sequence

from lsprotocol import types
from lsprotocol.types import CompletionItem, InlineCompletionItem

from inference.ending import CLOSING, quote_of, unpaired_in
from lsp_server.documents.document import Document
from lsp_server.documents.positions import Encoding, LineIndex
from lsp_server.inline.suggestion import GhostText, Suggestion
from lsp_server.lsp.capabilities import ACCEPT_COMMAND, lsp_range
from lsp_server.syntax.languages import table_of
from lsp_server.syntax.lines import word_before

MAX_LABEL_CHARACTERS = 60
_LABEL = "infill"


def inline_item(
    uri: str,
    lines: LineIndex,
    suggestion: Suggestion,
    ghost: GhostText,
    encoding: Encoding,
    line: Sequence[str] = (),
) -> InlineCompletionItem:
    """A suggestion for a text with these lines. Editors filter it by its range, which contains the text's start.

    `line`: the cursor's line, before and after the cursor, for an editor that cannot tell whether it has changed.
    """
    range_ = lsp_range(lines, ghost.start, ghost.end, encoding)
    return InlineCompletionItem(insert_text=ghost.text, range=range_, command=_accept_command(suggestion, uri, *line))


def completion_item(
    document: Document, cursor: int, index: int, suggested: tuple[Suggestion, GhostText], encoding: Encoding
) -> CompletionItem | None:
    """The `index`th suggestion, from 0, filtered by the word at the cursor; None if only white space is left."""
    suggestion, ghost = suggested
    start, end, text = _from_word(document, cursor, ghost)
    lines = text.strip().splitlines()
    if not lines:
        return None
    extra = f" (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
    return CompletionItem(
        label=lines[0] if len(lines[0]) <= MAX_LABEL_CHARACTERS else f"{lines[0][: MAX_LABEL_CHARACTERS - 1]}…",
        label_details=types.CompletionItemLabelDetails(detail=extra or None, description=_LABEL),
        detail=_LABEL + extra,
        kind=types.CompletionItemKind.Text,
        preselect=True if index == 0 else None,
        sort_text=f"!{index}",
        filter_text=document.text[start:cursor] or None,
        insert_text_format=types.InsertTextFormat.PlainText,
        insert_text_mode=types.InsertTextMode.AsIs,
        commit_characters=[],  # typing on, as a `.` or a `(`, is no acceptance of a whole fill
        text_edit=types.TextEdit(lsp_range(document.lines, start, end, encoding), text),
        command=_accept_command(suggestion, document.uri),
        data={"language": document.language_id},
    )


def with_documentation(item: CompletionItem, *, markdown: bool) -> CompletionItem:
    """The item with its whole text as documentation; other servers' items come back unchanged."""
    language = item.data.get("language") if isinstance(item.data, dict) else None
    if not isinstance(item.text_edit, types.TextEdit) or not isinstance(language, str):
        return item
    text = item.text_edit.new_text.strip("\r\n")
    if markdown:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        value = f"{fence}{language}\n{text}\n{fence}"
        item.documentation = types.MarkupContent(types.MarkupKind.Markdown, value)
    else:
        item.documentation = text
    return item


def _from_word(document: Document, cursor: int, ghost: GhostText) -> tuple[int, int, str]:
    """The edit's start, end and text: from the word up to closers it would replace, where Helix loses the cursor."""
    word = word_before(document.text, cursor, table_of(document.language_id).word_characters)
    written = len(ghost.text) - len(ghost.text.removeprefix(document.text[ghost.start : cursor]))
    done = max(written - len(word), 0)
    replaced = document.text[cursor : ghost.end]
    closers, _ = unpaired_in(ghost.text[written:], quote_of(replaced))
    if replaced and not replaced.strip(CLOSING) and closers:
        return ghost.start + done, cursor, ghost.text[done : written + closers[0][0]]
    return ghost.start + done, ghost.end, ghost.text[done:]


def _accept_command(suggestion: Suggestion, uri: str, *line: str) -> types.Command:
    return types.Command(title="Accept", command=ACCEPT_COMMAND, arguments=[suggestion.id, uri, *line])
