"""`textDocument/didClose`: forgets the document."""

from lsprotocol import types

from lsp_server.session import Session


def did_close(session: Session, params: types.DidCloseTextDocumentParams) -> None:
    session.forget(params.text_document.uri)
