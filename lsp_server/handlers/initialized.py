"""`initialized`: the client listens now: show problems, ask for its settings, and begin to load the model."""

from collections.abc import Awaitable
from uuid import uuid4

from lsprotocol import types

from lsp_server.handlers.did_change_configuration import ask_for_settings, use_settings
from lsp_server.session import Session
from lsp_server.settings.file import NAME


def initialized(session: Session, _: types.InitializedParams) -> Awaitable[None] | None:
    use_settings(session)
    if session.partner is not None and session.partner.problem:
        session.editor.show_once(session.partner.problem, types.MessageType.Warning)
    session.worker.warm_up()
    registrations = _registrations(session)
    return _introduce(session, registrations) if registrations or session.features.configuration else None


async def _introduce(session: Session, registrations: list[types.Registration]) -> None:
    """Ask to be told of changes before asking for the settings, so that no change falls between the two.

    A client that registers nothing has its settings files read when a document is opened or saved.
    """
    if registrations:
        await session.editor.register(registrations)
    if session.features.configuration:
        await ask_for_settings(session)


def _registrations(session: Session) -> list[types.Registration]:
    registrations = []
    if session.features.registers_watchers:
        watchers = [types.FileSystemWatcher(glob_pattern=f"**/{NAME}")]
        options = types.DidChangeWatchedFilesRegistrationOptions(watchers=watchers)
        registrations.append(_registration(types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options))
    if session.features.registers_configuration:
        registrations.append(_registration(types.WORKSPACE_DID_CHANGE_CONFIGURATION, None))
    return registrations


def _registration(method: str, options: object) -> types.Registration:
    return types.Registration(id=str(uuid4()), method=method, register_options=options)
