"""The language server: every method and its handler. `lsp_server.lsp.transports` delivers the messages."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from lsp_server.handlers import documents, settings
from lsp_server.handlers.code_action import code_action, code_action_resolve
from lsp_server.handlers.completion import completion
from lsp_server.handlers.execute_command import execute_command
from lsp_server.handlers.inline_completion import DID_ACCEPT, DID_REJECT, did_accept, did_reject, inline_completion
from lsp_server.handlers.inline_edit import DID_FOCUS, DID_SHOW, did_focus, did_show_inline_edit, inline_edit
from lsp_server.handlers.inline_edit import METHOD as INLINE_EDIT
from lsp_server.handlers.lifecycle import initialize, initialized, shutdown
from lsp_server.handlers.status import MODEL_OFFER, model_offer, status
from lsp_server.lsp.completion_items import documented
from lsp_server.lsp.dispatch import InfillProtocol
from lsp_server.lsp.replies import Phase
from lsp_server.lsp.status_board import METHOD as STATUS
from lsp_server.lsp.transports import ByteWriter
from lsp_server.session import Session

HANDLERS: dict[str, Callable[[Session, Any], Any]] = {
    types.INITIALIZE: initialize,
    types.INITIALIZED: initialized,
    types.TEXT_DOCUMENT_DID_OPEN: documents.did_open,
    types.TEXT_DOCUMENT_DID_CHANGE: documents.did_change,
    types.TEXT_DOCUMENT_DID_CLOSE: documents.did_close,
    types.TEXT_DOCUMENT_DID_SAVE: documents.did_save,
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: settings.did_change_configuration,
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: settings.did_change_watched_files,
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: settings.did_change_workspace_folders,
    types.TEXT_DOCUMENT_INLINE_COMPLETION: inline_completion,
    types.TEXT_DOCUMENT_COMPLETION: completion,
    types.COMPLETION_ITEM_RESOLVE: lambda session, item: documented(item, session.features.completion),
    types.TEXT_DOCUMENT_CODE_ACTION: code_action,
    types.CODE_ACTION_RESOLVE: code_action_resolve,
    types.WORKSPACE_EXECUTE_COMMAND: execute_command,
    types.WINDOW_WORK_DONE_PROGRESS_CANCEL: lambda session, params: session.editor.progress.cancel(params.token),
    DID_ACCEPT: did_accept,
    DID_REJECT: did_reject,
    types.NOTEBOOK_DOCUMENT_DID_OPEN: documents.notebook_did_open,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE: documents.notebook_did_change,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE: documents.notebook_did_close,
    types.NOTEBOOK_DOCUMENT_DID_SAVE: documents.notebook_did_save,
    INLINE_EDIT: inline_edit,
    DID_SHOW: did_show_inline_edit,
    DID_FOCUS: did_focus,
    STATUS: status,
    MODEL_OFFER: model_offer,
}
_CHANGES = {types.TEXT_DOCUMENT_DID_CHANGE, types.NOTEBOOK_DOCUMENT_DID_CHANGE}
_EDITS = {types.TEXT_DOCUMENT_DID_OPEN, types.NOTEBOOK_DOCUMENT_DID_OPEN, *_CHANGES}
log = logging.getLogger(__name__)


class InfillServer(LanguageServer):
    """A language server with the methods of `HANDLERS`, for one client."""

    protocol: InfillProtocol

    def __init__(self, flags: Mapping[str, Any], writer: ByteWriter | None = None) -> None:
        super().__init__("infill-ls", version("infill-ls"), protocol_cls=InfillProtocol)
        if writer is not None:
            self.protocol.set_writer(writer)
        self.session = Session(self, flags)
        self.ended = asyncio.Event()
        for method, handler in HANDLERS.items():
            self.feature(method)(partial(handler, self.session))
        self.feature(types.SHUTDOWN)(lambda _: shutdown(self.session, self.protocol))
        self.feature(types.EXIT)(lambda _: self.ended.set())
        self.protocol.on_unreadable = self._lose
        self.receive = self.protocol.receive

    @property
    def exit_status(self) -> int:
        """The exit status of the process: 0 once the client has sent `shutdown`."""
        return 0 if self.protocol.phase is Phase.SHUT_DOWN else 1

    async def leave(self) -> None:
        """The client is gone: stops its requests, and leaves the worker to others."""
        await shutdown(self.session, self.protocol)

    def _lose(self, method: str, params: Any) -> None:
        """A notification could not be parsed: after a lost edit, our text no longer matches the editor's."""
        if method not in _EDITS:
            return
        try:
            if "notebookDocument" in params:
                for cell in self.session.notebooks.cells_of(params["notebookDocument"]["uri"]):
                    self.session.lose(cell)
            else:
                self.session.lose(params["textDocument"]["uri"])
        except (TypeError, KeyError):
            if method in _CHANGES:
                self.session.lose_all()
            log.warning("a %s could not be read, not even which file it is of", method)
