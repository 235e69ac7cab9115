"""`notebookDocument/didSave`: does nothing. Some clients send it to every server that synchronises notebooks."""

from lsprotocol import types

from lsp_server.session import Session


def notebook_did_save(_session: Session, _params: types.DidSaveNotebookDocumentParams) -> None:
    """Nothing depends on the file on the disk."""
