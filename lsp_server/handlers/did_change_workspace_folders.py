"""`workspace/didChangeWorkspaceFolders`: folders come and go, and their settings with them."""

from collections.abc import Awaitable

from lsprotocol import types

from lsp_server.handlers.did_change_configuration import ask_for_settings, use_settings
from lsp_server.session import Session


def did_change_workspace_folders(
    session: Session, params: types.DidChangeWorkspaceFoldersParams
) -> Awaitable[None] | None:
    event = params.event
    session.configuration.change_folders([it.uri for it in event.added], [it.uri for it in event.removed])
    use_settings(session)
    return ask_for_settings(session) if session.features.configuration else None
