"""The language server: every method and its handler. `lsp_server/lsp/transports.py` delivers the messages."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lsprotocol import types

from lsp_server.handlers import (
    code_action,
    documents,
    execute_command,
    inline_completion,
    inline_edit,
    lifecycle,
    status,
)
from lsp_server.inline.service import InlineService
from lsp_server.lsp.dispatch import CONVERTER, Write, read_raw, unreadable
from lsp_server.lsp.editor_connection import EditorConnection
from lsp_server.lsp.worker_connection import STATUS
from lsp_server.next_edit.service import NextEditService
from lsp_server.refine.refining import Refining
from lsp_server.session import LIMIT_S, Session
from lsp_server.shadow.sampler import Sampler
from lsp_server.usage.usage import Ledger, Usage


@dataclass(frozen=True)
class Method:
    """How to handle a method. A handler with `otherwise`, the reply if the document may not be filled, also gets the
    document. `params` is the type of params that lsprotocol does not know, or knows too strictly.
    """

    handler: Callable[..., Any]
    otherwise: Callable[[], Any] | None = None
    params: type[Any] | None = None

    def handle(self, method: str, session: Session, params: Any) -> Any:
        kind: Any = types.METHOD_TO_TYPES.get(method, (None, None, None))[2]
        if self.params is not None:
            named = {} if params is None or params == [] else params  # an empty table of Lua is a list in JSON
            params = read_raw(f"params for {method}", named, self.params)
        elif kind is not None:
            try:
                params = CONVERTER.structure(params, kind)
            except Exception as error:
                raise unreadable(method, error) from None
        if self.otherwise is None:
            return self.handler(session, params)
        uri = params.text_document.uri
        return self.otherwise() if session.why_off(uri) else self.handler(session, params, session.documents[uri])


METHODS: dict[str, Method] = {
    types.INITIALIZE: Method(lifecycle.initialize, params=dict[str, Any]),  # raw: it may have newer capabilities
    types.INITIALIZED: Method(lifecycle.initialized),
    types.TEXT_DOCUMENT_DID_OPEN: Method(documents.did_open),
    types.TEXT_DOCUMENT_DID_CHANGE: Method(documents.did_change),
    types.TEXT_DOCUMENT_DID_CLOSE: Method(documents.did_close),
    types.TEXT_DOCUMENT_DID_SAVE: Method(documents.did_save),
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: Method(lifecycle.did_change_configuration),
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: Method(lifecycle.did_change_workspace_folders),
    types.TEXT_DOCUMENT_INLINE_COMPLETION: Method(
        inline_completion.inline_completion, lambda: types.InlineCompletionList([])
    ),
    types.TEXT_DOCUMENT_COMPLETION: Method(inline_completion.completion, lambda: types.CompletionList(False, [])),
    types.TEXT_DOCUMENT_CODE_ACTION: Method(code_action.code_action, list),
    types.CODE_ACTION_RESOLVE: Method(code_action.code_action_resolve),
    types.WORKSPACE_EXECUTE_COMMAND: Method(execute_command.execute_command),
    types.WINDOW_WORK_DONE_PROGRESS_CANCEL: Method(lambda session, params: session.editor.stop(params.token)),
    inline_completion.DID_ACCEPT: Method(inline_completion.did_accept, params=inline_completion.DidAcceptParams),
    inline_completion.DID_REJECT: Method(inline_completion.did_reject, params=inline_completion.DidRejectParams),
    types.NOTEBOOK_DOCUMENT_DID_OPEN: Method(documents.notebook_did_open),
    types.NOTEBOOK_DOCUMENT_DID_CHANGE: Method(documents.notebook_did_change),
    types.NOTEBOOK_DOCUMENT_DID_CLOSE: Method(documents.notebook_did_close),
    types.NOTEBOOK_DOCUMENT_DID_SAVE: Method(documents.notebook_did_save),
    inline_edit.METHOD: Method(inline_edit.inline_edit, lambda: inline_edit.NONE, inline_edit.InlineEditParams),
    inline_edit.DID_SHOW: Method(inline_edit.did_show_inline_edit),
    STATUS: Method(status.status, params=status.StatusParams),
    status.MODEL_OFFER: Method(status.model_offer),
}
_CHANGES = {types.TEXT_DOCUMENT_DID_CHANGE, types.NOTEBOOK_DOCUMENT_DID_CHANGE}
_EDITS = {types.TEXT_DOCUMENT_DID_OPEN, types.NOTEBOOK_DOCUMENT_DID_OPEN, *_CHANGES}
log = logging.getLogger(__name__)


class InfillServer(EditorConnection):
    """The server of one client."""

    def __init__(self, flags: Mapping[str, Any], write: Write = lambda _: None) -> None:
        super().__init__(write)
        session = self.session = Session(self, flags)
        ledger = Ledger(session.warn)
        session.broadcast.parts += [
            Usage(session, ledger),
            Sampler(session, ledger),
            Refining(session),
            InlineService(session),
            NextEditService(session),
            ledger,
        ]
        self.handlers = {name: partial(method.handle, name, self.session) for name, method in METHODS.items()}
        self.handlers[types.SHUTDOWN] = lambda _: self.leave()

    async def leave(self) -> None:
        """Answers every request that still runs, keeps nothing, and leaves the worker to others."""
        await self.drain(LIMIT_S)
        await self.session.close()

    def lose(self, method: str, params: Any) -> None:
        """After a lost edit, our text no longer matches the editor's."""
        if method not in _EDITS:
            return
        uris: Sequence[str]
        try:
            if "notebookDocument" in params:
                uris = self.session.notebooks.cells_of(params["notebookDocument"]["uri"])
            else:
                uris = (params["textDocument"]["uri"],)
            self.session.lose(*uris)
        except (TypeError, KeyError):
            if method in _CHANGES:
                self.session.lose(*self.session.documents)
            log.warning("a %s could not be read, not even which file it is of", method)
