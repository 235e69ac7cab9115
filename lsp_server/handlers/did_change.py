"""`textDocument/didChange`: the editor's edits, applied to our own copy of the text."""

from lsprotocol import types

from lsp_server.document import Edit
from lsp_server.session import Session


def did_change(session: Session, params: types.DidChangeTextDocumentParams) -> None:
    uri = params.text_document.uri
    session.inline.stop(uri)
    document = session.documents.get(uri)
    if document is None:  # never opened, or not to be read
        return
    edits = [_edit(change) for change in params.content_changes]
    try:
        document.apply(edits, params.text_document.version, session.features.encoding)
    except Exception:
        session.forget(uri)  # better no fills than fills for a text that the editor does not have
        raise


def _edit(change: types.TextDocumentContentChangeEvent) -> Edit:
    if isinstance(change, types.TextDocumentContentChangePartial):
        start, end = change.range.start, change.range.end
        return Edit((start.line, start.character), (end.line, end.character), change.text)
    return Edit(None, None, change.text)
