"""Keeps our copy of the open documents and notebooks in step with the editor's."""

from lsprotocol import types

from lsp_server.documents.document import ContentChange
from lsp_server.lsp.protocol import NO_VERSION
from lsp_server.session import Session


def did_open(session: Session, params: types.DidOpenTextDocumentParams) -> None:
    opened = params.text_document
    session.open(opened.uri, opened.language_id, opened.version, opened.text)


def did_change(session: Session, params: types.DidChangeTextDocumentParams) -> None:
    uri = params.text_document.uri
    first = next(iter(params.content_changes), None)
    if isinstance(first, types.TextDocumentContentChangeWholeDocument):  # on which later ones build
        session.resync(uri, params.text_document.version, first.text)
    document = session.documents.get(uri)
    if document is None:  # never opened, or refused because it may hold secrets
        return
    try:
        edits = [_edit(session, change) for change in params.content_changes]
        version = params.text_document.version
        next_version = document.version + 1 if version == NO_VERSION else version
        changes = document.apply(edits, next_version, session.client_capabilities.encoding)
    except Exception:
        session.mark_desynced(uri)  # better no fills than fills for a text the editor does not have
        raise
    session.features.changed(uri, changes)


def _edit(session: Session, change: types.TextDocumentContentChangeEvent) -> ContentChange:
    if isinstance(change, types.TextDocumentContentChangePartial):
        start = change.range.start
        end = change.range.end
        return ContentChange(
            (start.line, start.character), (end.line, end.character), session.normalise_for_neovim(change.text)
        )
    return ContentChange(None, None, session.normalise_for_neovim(change.text))


def did_close(session: Session, params: types.DidCloseTextDocumentParams) -> None:
    session.forget_document(params.text_document.uri)


def did_save(session: Session, params: types.DidSaveTextDocumentParams) -> None:
    session.refresh_settings()


def notebook_did_open(session: Session, params: types.DidOpenNotebookDocumentParams) -> None:
    notebook = params.notebook_document
    session.notebooks.open(notebook.uri, [cell.document for cell in notebook.cells])
    for cell in params.cell_text_documents:
        session.open(cell.uri, cell.language_id, cell.version, cell.text)


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
        except Exception as error:  # that cell gets no more fills; edits of other cells still apply
            failed = error
    if failed is not None:
        raise failed


def _restructure(session: Session, notebook: str, change: types.NotebookDocumentCellChangeStructure) -> None:
    array = change.array
    session.notebooks.splice(notebook, array.start, array.delete_count, [cell.document for cell in array.cells or ()])
    for closed in change.did_close or ():
        session.forget_document(closed.uri)
    for cell in change.did_open or ():
        session.open(cell.uri, cell.language_id, cell.version, cell.text)


def notebook_did_close(session: Session, params: types.DidCloseNotebookDocumentParams) -> None:
    for cell in session.notebooks.close(params.notebook_document.uri):
        session.forget_document(cell)
    for closed in params.cell_text_documents:
        session.forget_document(closed.uri)
