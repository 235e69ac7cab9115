"""`workspace/didChangeWorkspaceFolders`: folders come and go, and their settings with them."""

from collections.abc import Awaitable

from lsprotocol import types

from lsp_server.handlers.completion_offer import offer_completion
from lsp_server.handlers.configuration import pull
from lsp_server.session import Session


def did_change_workspace_folders(
    session: Session, params: types.DidChangeWorkspaceFoldersParams
) -> Awaitable[None] | None:
    event = params.event
    session.configuration.change_folders([it.uri for it in event.added], [it.uri for it in event.removed])
    session.show_problems()
    offer_completion(session)
    return pull(session) if session.features.configuration else None
