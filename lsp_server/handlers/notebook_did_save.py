"""`notebookDocument/didSave`: nothing depends on what is on the disk, but some clients send it to whoever syncs."""

from lsprotocol import types

from lsp_server.session import Session


def notebook_did_save(_session: Session, _params: types.DidSaveNotebookDocumentParams) -> None:
    """Nothing to do."""
