"""The life of a session: initialisation, changes of settings and workspace folders, shutdown."""

import asyncio
import logging
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from lsprotocol import types

from lsp_server.handlers.execute_command import COMMANDS
from lsp_server.handlers.inline_completion import initial_completion_options
from lsp_server.lsp.capabilities import parse_client_capabilities, server_capabilities
from lsp_server.lsp.protocol import InfillProtocol, ReplyError
from lsp_server.session import Session

SETTINGS_SECTIONS = ("infill-ls", "infill")
"""The sections of an editor's settings that may hold ours; the first one present counts."""


async def did_change_configuration(session: Session, params: types.DidChangeConfigurationParams) -> None:
    if isinstance(params.settings, Mapping):
        section = next((section for section in SETTINGS_SECTIONS if section in params.settings), None)
        if section is not None:
            session.configuration.set_editor_settings(params.settings[section])
            session.show_problems()
    await request_settings(session)


async def request_settings(session: Session) -> None:
    """Requests the client's settings, for each folder and for none. Without a reply they stay as they are."""
    if not session.client_capabilities.configuration:
        return
    folders = [None, *(folder.uri for folder in session.configuration.folders)]
    sections = [(folder, section) for folder in folders for section in SETTINGS_SECTIONS]
    items = [types.ConfigurationItem(scope_uri=folder, section=section) for folder, section in sections]
    replies = await session.editor.request_configuration(items)
    if replies is None:
        return
    for index, folder in enumerate(folders):
        folder_replies = replies[index * len(SETTINGS_SECTIONS) : (index + 1) * len(SETTINGS_SECTIONS)]
        raw = next((answer for answer in folder_replies if answer is not None), None)
        if raw is not None or folder is not None:  # without an answer, keep what the client sent unasked
            session.configuration.set_editor_settings(raw, folder)
    session.show_problems()


async def did_change_workspace_folders(session: Session, params: types.DidChangeWorkspaceFoldersParams) -> None:
    event = params.event
    added, removed = ([folder.uri for folder in folders] for folders in (event.added, event.removed))
    session.configuration.change_folders(added, removed)
    session.show_problems()
    await request_settings(session)


SHUTDOWN_S = 2.0
log = logging.getLogger(__name__)


def initialize(session: Session, params: Any) -> types.InitializeResult:
    """Tells the client the server's capabilities. `params` is raw JSON: see `InfillProtocol._call_handler`."""
    if not isinstance(params, Mapping):
        raise ReplyError("invalid params for initialize: not an object", types.ErrorCodes.InvalidParams)
    capabilities = parse_client_capabilities(params.get("capabilities"), params.get("clientInfo"))
    session.start(capabilities, params.get("initializationOptions"), _folders(params))
    return types.InitializeResult(
        capabilities=server_capabilities(
            session.client_capabilities, list(COMMANDS), initial_completion_options(session)
        ),
        server_info=types.ServerInfo(name="infill-ls", version=version("infill-ls")),
    )


def _folders(params: Mapping[str, Any]) -> list[str]:
    """The URIs of the workspace folders; older clients have one root instead."""
    listed = params.get("workspaceFolders")
    uris = [item.get("uri") for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
    return [uri for uri in uris or [params.get("rootUri")] if isinstance(uri, str)]


async def initialized(session: Session, _: types.InitializedParams) -> None:
    """The client is ready: shows problems, begins to load the model, and requests the client's settings."""
    session.show_problems()
    if session.partner is not None and session.partner.problem:
        session.editor.show_once(session.partner.problem, types.MessageType.Warning)
    session.worker.warm_up()
    session.run_in_background(session.connect_edit_model())
    if session.client_capabilities.registers_configuration:  # before asking, so that no change is missed in between
        await session.editor.register_notification(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    await request_settings(session)


async def shutdown(session: Session, protocol: InfillProtocol) -> None:
    """Answers every running request, forgets the documents, and disconnects from the worker."""
    await protocol.drain(SHUTDOWN_S)
    await end_session(session)


async def end_session(session: Session) -> None:
    """Forgets the documents and disconnects from the worker, without waiting for one that hangs."""
    session.close()
    await session.features.ended()
    try:
        async with asyncio.timeout(SHUTDOWN_S):
            connections = (session.worker, session.partner, session.edit_model)
            await asyncio.gather(*(connection.close() for connection in connections if connection is not None))
    except TimeoutError:
        log.warning("a worker did not let go in %g s; left it as it is", SHUTDOWN_S)
