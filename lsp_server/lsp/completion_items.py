"""A suggestion as an item of the editor's completion list. Nothing in the list is ours to order, so it says: first.

The item is one exact edit on the cursor's line. No insert/replace pair: what a fill replaces behind the cursor, it
repeats, so that a client that only inserts would double it.
"""

from typing import Any

from lsprotocol import types
from lsprotocol.types import CompletionItem

from lsp_server.documents.document import Document
from lsp_server.documents.positions import Encoding
from lsp_server.inline.suggestion import Shown, Suggestion
from lsp_server.lsp.capabilities import ACCEPT_COMMAND, ClientFeatures, CompletionFeatures
from lsp_server.syntax.languages import table_of
from lsp_server.syntax.lines import word_before

LONGEST_LABEL_CHARACTERS = 60
_NAME = "infill"


def item_of(
    document: Document, cursor: int, number: int, found: tuple[Suggestion, Shown], features: ClientFeatures
) -> CompletionItem | None:
    """The `number`th suggestion, counted from 0; None where what is left of it is white space, which has no label.

    `filter_text` is the word at the cursor: no client hides it.
    """
    suggestion, shown = found
    can = features.completion
    start, text = _from_word(document, cursor, shown)
    lines = text.strip().splitlines()
    if not lines:
        return None
    more = f" (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
    return CompletionItem(
        label=_cut(lines[0]),
        label_details=types.CompletionItemLabelDetails(detail=more or None, description=_NAME)
        if can.label_details
        else None,
        detail=None if can.label_details else _NAME + more,
        kind=types.CompletionItemKind.Text,
        preselect=True if can.preselect and number == 0 else None,
        sort_text=f"!{number}",
        filter_text=document.text[start:cursor] or None,
        insert_text_format=types.InsertTextFormat.PlainText,
        insert_text_mode=types.InsertTextMode.AsIs if can.as_is else None,
        text_edit=types.TextEdit(_range(document, start, shown.end, features.encoding), text),
        command=accept_command(suggestion, document.uri),
        data={"language": document.language_id},
    )


def accept_command(suggestion: Suggestion, uri: str) -> types.Command:
    """The command that the editor runs when it has inserted the suggestion."""
    return types.Command(title="Accept", command=ACCEPT_COMMAND, arguments=[suggestion.id, uri])


def documented(item: CompletionItem, features: CompletionFeatures) -> CompletionItem:
    """The item with its whole text as documentation; one that is not ours comes back as it is."""
    language = _language_of(item.data)
    if not isinstance(item.text_edit, types.TextEdit) or language is None:
        return item
    text = item.text_edit.new_text.strip("\r\n")
    if features.markdown:
        fence = "`" * max(3, 1 + _longest_run(text))
        value = f"{fence}{language}\n{text}\n{fence}"
        item.documentation = types.MarkupContent(types.MarkupKind.Markdown, value)
    else:
        item.documentation = text
    return item


def _from_word(document: Document, cursor: int, shown: Shown) -> tuple[int, str]:
    """Where the edit starts and its text, both without what was typed before the word at the cursor."""
    typed = document.text[shown.start : cursor]
    word = word_before(document.text, cursor, table_of(document.language_id).word_characters)
    done = max(len(typed) - len(word), 0) if shown.text.startswith(typed) else 0
    return shown.start + done, shown.text[done:]


def _range(document: Document, start: int, end: int, encoding: Encoding) -> types.Range:
    first, last = (types.Position(*document.lines.position(at, encoding)) for at in (start, end))
    return types.Range(start=first, end=last)


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LABEL_CHARACTERS else line[: LONGEST_LABEL_CHARACTERS - 1] + "…"


def _longest_run(text: str) -> int:
    """The most backticks in a row."""
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest


def _language_of(data: Any) -> str | None:
    """What we have put into the data of an item; None: it is not ours."""
    language = data.get("language") if isinstance(data, dict) else None
    return language if isinstance(language, str) else None
