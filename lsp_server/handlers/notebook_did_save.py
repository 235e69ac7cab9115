"""`notebookDocument/didSave`: sees what of the fills in its cells still stands."""

from lsprotocol import types

from lsp_server.session import Session


def notebook_did_save(session: Session, params: types.DidSaveNotebookDocumentParams) -> None:
    for cell in session.notebooks.cells_of(params.notebook_document.uri):
        session.saved(cell)
