"""`textDocument/didChange`: applies the editor's edits to our copy of the text."""

from collections.abc import Sequence

from lsprotocol import types

from lsp_server.documents.document import Edit
from lsp_server.session import Session


def did_change(session: Session, params: types.DidChangeTextDocumentParams) -> None:
    uri = params.text_document.uri
    if whole := _whole_text(params.content_changes):
        session.found_again(uri, params.text_document.version, whole.text)
    document = session.documents.get(uri)
    if document is None:  # it was never opened, or must not be read
        return
    try:
        edits = [_edit(change) for change in params.content_changes]
        changes = document.apply(edits, params.text_document.version, session.features.encoding)
    except Exception:
        session.lose(uri)  # better no fills than fills for a text that the editor does not have
        raise
    session.changed(uri, changes)


def _whole_text(
    changes: Sequence[types.TextDocumentContentChangeEvent],
) -> types.TextDocumentContentChangeWholeDocument | None:
    """The first of the changes, where it replaces all of the text; those behind it then change that."""
    first = changes[0] if changes else None
    return first if isinstance(first, types.TextDocumentContentChangeWholeDocument) else None


def _edit(change: types.TextDocumentContentChangeEvent) -> Edit:
    if isinstance(change, types.TextDocumentContentChangePartial):
        start, end = change.range.start, change.range.end
        return Edit((start.line, start.character), (end.line, end.character), change.text)
    return Edit(None, None, change.text)
