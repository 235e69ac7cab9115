"""The language server: every method and its handler. How messages reach it is in `lsp_server.lsp.transports`."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from lsp_server.handlers import did_accept as accepting
from lsp_server.handlers import did_reject as rejecting
from lsp_server.handlers.code_action import code_action
from lsp_server.handlers.code_action_resolve import code_action_resolve
from lsp_server.handlers.completion import completion
from lsp_server.handlers.completion_resolve import completion_resolve
from lsp_server.handlers.did_change import did_change
from lsp_server.handlers.did_change_configuration import did_change_configuration
from lsp_server.handlers.did_change_watched_files import did_change_watched_files
from lsp_server.handlers.did_change_workspace_folders import did_change_workspace_folders
from lsp_server.handlers.did_close import did_close
from lsp_server.handlers.did_open import did_open
from lsp_server.handlers.did_save import did_save
from lsp_server.handlers.execute_command import execute_command
from lsp_server.handlers.initialize import initialize
from lsp_server.handlers.initialized import initialized
from lsp_server.handlers.inline_completion import inline_completion
from lsp_server.handlers.notebook_did_change import notebook_did_change
from lsp_server.handlers.notebook_did_close import notebook_did_close
from lsp_server.handlers.notebook_did_open import notebook_did_open
from lsp_server.handlers.notebook_did_save import notebook_did_save
from lsp_server.handlers.shutdown import LIMIT_S, leave, shutdown
from lsp_server.handlers.status import status
from lsp_server.handlers.work_done_progress_cancel import work_done_progress_cancel
from lsp_server.lsp import status_board as statuses
from lsp_server.lsp.dispatch import InfillProtocol, Phase
from lsp_server.lsp.transports import Writer
from lsp_server.session import Session

HANDLERS: dict[str, Callable[[Session, Any], Any]] = {
    types.INITIALIZE: initialize,
    types.INITIALIZED: initialized,
    types.TEXT_DOCUMENT_DID_OPEN: did_open,
    types.TEXT_DOCUMENT_DID_CHANGE: did_change,
    types.TEXT_DOCUMENT_DID_CLOSE: did_close,
    types.TEXT_DOCUMENT_DID_SAVE: did_save,
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: did_change_configuration,
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: did_change_watched_files,
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: did_change_workspace_folders,
    types.TEXT_DOCUMENT_INLINE_COMPLETION: inline_completion,
    types.TEXT_DOCUMENT_COMPLETION: completion,
    types.COMPLETION_ITEM_RESOLVE: completion_resolve,
    types.TEXT_DOCUMENT_CODE_ACTION: code_action,
    types.CODE_ACTION_RESOLVE: code_action_resolve,
    types.WORKSPACE_EXECUTE_COMMAND: execute_command,
    types.WINDOW_WORK_DONE_PROGRESS_CANCEL: work_done_progress_cancel,
    accepting.METHOD: accepting.did_accept,
    rejecting.METHOD: rejecting.did_reject,
    types.NOTEBOOK_DOCUMENT_DID_OPEN: notebook_did_open,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE: notebook_did_change,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE: notebook_did_close,
    types.NOTEBOOK_DOCUMENT_DID_SAVE: notebook_did_save,
    statuses.METHOD: status,
}
_EDITS = {
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
}
log = logging.getLogger(__name__)


class InfillServer(LanguageServer):
    """A language server whose methods are `HANDLERS`, for one client."""

    protocol: InfillProtocol

    def __init__(self, flags: Mapping[str, Any], writer: Writer | None = None) -> None:
        super().__init__("infill-ls", version("infill-ls"), protocol_cls=InfillProtocol)
        if writer is not None:
            self.protocol.set_writer(writer)
        self.session = Session(self, flags)
        self.ended = asyncio.Event()
        for method, handler in HANDLERS.items():
            self.feature(method)(partial(handler, self.session))
        self.feature(types.SHUTDOWN)(lambda _: shutdown(self.session, self.protocol))
        self.feature(types.EXIT)(lambda _: self.ended.set())
        self.protocol.on_unreadable = self._forget
        self.receive = self.protocol.receive

    @property
    def exit_status(self) -> int:
        """What the process should exit with: 0 once the client has said `shutdown`."""
        return 0 if self.protocol.phase is Phase.SHUT_DOWN else 1

    async def leave(self) -> None:
        """The client is gone: stop what runs for it, and leave the worker to others."""
        await self.protocol.drain(LIMIT_S)
        await leave(self.session)

    def _forget(self, method: str, params: Any) -> None:
        """After an edit that could not be read, our text is not the editor's: never fill that document again."""
        if method not in _EDITS:
            return
        try:
            if "notebookDocument" in params:
                for cell in self.session.notebooks.cells_of(params["notebookDocument"]["uri"]):
                    self.session.lose(cell)
            else:
                self.session.lose(params["textDocument"]["uri"])
        except (TypeError, KeyError):
            log.warning("a %s that could not be read was ignored", method)
