"""`notebookDocument/didChange`: updates the cells of a notebook, and their text like that of any document."""

from lsprotocol import types

from lsp_server.handlers.did_change import did_change
from lsp_server.session import Session


def notebook_did_change(session: Session, params: types.DidChangeNotebookDocumentParams) -> None:
    cells = params.change.cells
    if cells is None:  # only its metadata changed
        return
    if cells.structure is not None:
        _restructure(session, params.notebook_document.uri, cells.structure)
    failed: Exception | None = None
    for content in cells.text_content or ():
        try:
            did_change(session, types.DidChangeTextDocumentParams(content.document, content.changes))
        except Exception as error:  # that cell is lost; the edits of the others are not
            failed = error
    if failed is not None:
        raise failed


def _restructure(session: Session, notebook: str, change: types.NotebookDocumentCellChangeStructure) -> None:
    array = change.array
    session.notebooks.splice(notebook, array.start, array.delete_count, [cell.document for cell in array.cells or ()])
    for closed in change.did_close or ():
        session.forget(closed.uri)
    for cell in change.did_open or ():
        session.open(cell.uri, cell.language_id, cell.version, cell.text)
