"""`textDocument/didSave`: the text is known already; a settings file may have changed with it."""

from lsprotocol import types

from lsp_server.session import Session


def did_save(session: Session, _: types.DidSaveTextDocumentParams) -> None:
    session.refresh_settings()
