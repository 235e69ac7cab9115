"""`notebookDocument/didClose`: forgets a notebook and all cells it has had."""

from lsprotocol import types

from lsp_server.session import Session


def notebook_did_close(session: Session, params: types.DidCloseNotebookDocumentParams) -> None:
    for cell in session.notebooks.close(params.notebook_document.uri):
        session.forget(cell)
    for closed in params.cell_text_documents:
        session.forget(closed.uri)
