"""`textDocument/didChange`: the editor's edits, applied to our own copy of the text."""

from lsprotocol import types

from lsp_server.documents.change import Change, difference
from lsp_server.documents.document import Document, Edit
from lsp_server.documents.positions import Encoding
from lsp_server.session import Session


def did_change(session: Session, params: types.DidChangeTextDocumentParams) -> None:
    uri = params.text_document.uri
    document = session.documents.get(uri)
    if document is None:  # never opened, or not to be read
        return
    version, encoding = params.text_document.version, session.features.encoding
    try:
        changes = [_apply(document, _edit(change), version, encoding) for change in params.content_changes]
        document.apply((), version, encoding)
    except Exception:
        session.lose(uri)  # better no fills than fills for a text that the editor does not have
        raise
    for service in session.inline_services:
        service.changed(uri, changes)


def _apply(document: Document, edit: Edit, version: int, encoding: Encoding) -> Change:
    """Apply one edit; what it changed, in `str` indices."""
    before, lines = document.text, document.lines
    start, end = (lines.offset(*at, encoding) if at else None for at in (edit.start, edit.end))
    document.apply([edit], version, encoding)
    if start is not None and end is not None and start <= end:
        change = Change(start, before[start:end], edit.text)
        if change.applied(before) == document.text:
            return change
    return difference(before, document.text)  # all of it was sent, or a character was parted


def _edit(change: types.TextDocumentContentChangeEvent) -> Edit:
    if isinstance(change, types.TextDocumentContentChangePartial):
        start, end = change.range.start, change.range.end
        return Edit((start.line, start.character), (end.line, end.character), change.text)
    return Edit(None, None, change.text)
