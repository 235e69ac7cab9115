"""`initialized`: the client listens now: show problems, ask for its settings, and begin to load the model."""

import logging
from collections.abc import Awaitable
from uuid import uuid4

from lsprotocol import types

from lsp_server.handlers.completion_offer import offer_completion
from lsp_server.handlers.configuration import pull
from lsp_server.session import Session
from lsp_server.settings.file import NAME

log = logging.getLogger(__name__)


def initialized(session: Session, _: types.InitializedParams) -> Awaitable[None] | None:
    session.show_problems()
    offer_completion(session)
    if session.settings.start_worker:
        session.worker.warm_up()
    wishes = _registrations(session)
    return _introduce(session, wishes) if wishes or session.features.configuration else None


async def _introduce(session: Session, wishes: list[types.Registration]) -> None:
    """Ask to be told of changes before asking for what is, so that no change falls between the two."""
    if wishes:
        try:
            await session.server.client_register_capability_async(types.RegistrationParams(registrations=wishes))
        except Exception as error:  # then files are looked at when a document is opened or saved
            log.info("the client registers nothing: %s", type(error).__name__)
    if session.features.configuration:
        await pull(session)


def _registrations(session: Session) -> list[types.Registration]:
    wishes = []
    if session.features.registers_watchers:
        watchers = [types.FileSystemWatcher(glob_pattern=f"**/{NAME}")]
        options = types.DidChangeWatchedFilesRegistrationOptions(watchers=watchers)
        wishes.append(_registration(types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options))
    if session.features.registers_configuration:
        wishes.append(_registration(types.WORKSPACE_DID_CHANGE_CONFIGURATION, None))
    return wishes


def _registration(method: str, options: object) -> types.Registration:
    return types.Registration(id=str(uuid4()), method=method, register_options=options)
