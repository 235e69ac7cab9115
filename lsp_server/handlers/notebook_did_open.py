"""`notebookDocument/didOpen`: opens a notebook and each of its cells as a document."""

from lsprotocol import types

from lsp_server.session import Session


def notebook_did_open(session: Session, params: types.DidOpenNotebookDocumentParams) -> None:
    notebook = params.notebook_document
    session.notebooks.open(notebook.uri, [cell.document for cell in notebook.cells])
    for cell in params.cell_text_documents:
        session.open(cell.uri, cell.language_id, cell.version, cell.text)
