"""`textDocument/didSave`: reads the settings files again, which may have been saved. The text is known already."""

from lsprotocol import types

from lsp_server.session import Session


def did_save(session: Session, _: types.DidSaveTextDocumentParams) -> None:
    session.refresh_settings()
