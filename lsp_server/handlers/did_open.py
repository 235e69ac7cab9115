"""`textDocument/didOpen`: keeps the document's text from now on."""

from lsprotocol import types

from lsp_server.session import Session


def did_open(session: Session, params: types.DidOpenTextDocumentParams) -> None:
    opened = params.text_document
    session.open(opened.uri, opened.language_id, opened.version, opened.text)
