"""`workspace/didChangeWatchedFiles`: the only files that we have watched are settings files."""

from lsprotocol import types

from lsp_server.handlers.completion import register_completion
from lsp_server.session import Session


def did_change_watched_files(session: Session, _: types.DidChangeWatchedFilesParams) -> None:
    session.refresh_settings()
    register_completion(session)
