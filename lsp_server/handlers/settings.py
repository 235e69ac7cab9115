"""Handles changes of the client's settings, which it is asked for, and of workspace folders."""

from collections.abc import Awaitable, Mapping

from lsprotocol import types

from lsp_server.session import Session

SECTIONS = ("infill-ls", "infill")
"""The sections of an editor's settings that may hold ours; the first one present counts."""


def did_change_configuration(session: Session, params: types.DidChangeConfigurationParams) -> Awaitable[None] | None:
    if isinstance(params.settings, Mapping):
        section = next((section for section in SECTIONS if section in params.settings), None)
        if section is not None:
            session.configuration.take_sent(params.settings[section])
            session.show_problems()
    return ask_for_settings(session) if session.features.configuration else None


async def ask_for_settings(session: Session) -> None:
    """Requests the client's settings, for each folder and for none. Without an answer, they stay unchanged."""
    folders = [None, *(folder.uri for folder in session.configuration.folders)]
    items = [types.ConfigurationItem(scope_uri=folder, section=section) for folder in folders for section in SECTIONS]
    found = await session.editor.configuration(items)
    if found is None:
        return
    for number, folder in enumerate(folders):
        answers = found[number * len(SECTIONS) : (number + 1) * len(SECTIONS)]
        raw = next((answer for answer in answers if answer is not None), None)
        if raw is not None or folder is not None:  # without an answer, keep what the client sent unasked
            session.configuration.take_sent(raw, folder)
    session.show_problems()


def did_change_workspace_folders(
    session: Session, params: types.DidChangeWorkspaceFoldersParams
) -> Awaitable[None] | None:
    event = params.event
    session.configuration.change_folders([it.uri for it in event.added], [it.uri for it in event.removed])
    session.show_problems()
    return ask_for_settings(session) if session.features.configuration else None
