"""`textDocument/didSave`: reads the settings files again, which may have been saved, and sees what of fills stands.

The text is known already.
"""

from lsprotocol import types

from lsp_server.session import Session


def did_save(session: Session, params: types.DidSaveTextDocumentParams) -> None:
    session.refresh_settings()
    session.saved(params.text_document.uri)
