"""The language server: every method and its handler. `lsp_server/lsp/transports.py` delivers the messages."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from lsp_server.handlers import documents, lifecycle
from lsp_server.handlers.code_action import code_action, code_action_resolve
from lsp_server.handlers.execute_command import execute_command
from lsp_server.handlers.inline_completion import (
    DID_ACCEPT,
    DID_REJECT,
    DID_REST_CURSOR,
    DidAcceptParams,
    DidRejectParams,
    DidRestCursorParams,
    completion,
    did_accept,
    did_reject,
    did_rest_cursor,
    inline_completion,
)
from lsp_server.handlers.inline_edit import (
    DID_SHOW_INLINE_EDIT,
    INLINE_EDIT,
    NO_EDITS,
    InlineEditParams,
    did_show_inline_edit,
    inline_edit,
)
from lsp_server.handlers.lifecycle import initialize, initialized, shutdown
from lsp_server.handlers.status import MODEL_OFFER, StatusParams, model_offer, status
from lsp_server.inline.read_ahead import ReadAheadPrefill
from lsp_server.inline.service import CompletionListService, InlineService
from lsp_server.lsp.completion_items import with_documentation
from lsp_server.lsp.protocol import InfillProtocol, decode_raw
from lsp_server.lsp.transports import Write
from lsp_server.lsp.worker_supervisor import STATUS
from lsp_server.next_edit.service import NextEditService
from lsp_server.refine.refiner import PartnerRefiner
from lsp_server.session import Session
from lsp_server.usage.statistics import StatisticsFeature, StatisticsWriter


@dataclass(frozen=True)
class MethodHandler:
    """How to handle a method. With `otherwise`, the reply if the document may not be filled, the handler also gets the
    document. `params` is the type of the params if lsprotocol does not know them.
    """

    handler: Callable[..., Any]
    otherwise: Callable[[], Any] | None = None
    params: type[Any] | None = None

    def handle(self, method: str, session: Session, params: Any) -> Any:
        if self.params is not None:
            named = {} if params is None or params == [] else params  # an empty table of Lua is a list in JSON
            params = decode_raw(f"params for {method}", named, self.params)
        if self.otherwise is None:
            return self.handler(session, params)
        uri = params.text_document.uri
        return (
            self.otherwise() if session.disabled_reason(uri) else self.handler(session, params, session.documents[uri])
        )


METHODS: dict[str, MethodHandler] = {
    types.INITIALIZE: MethodHandler(initialize),
    types.INITIALIZED: MethodHandler(initialized),
    types.TEXT_DOCUMENT_DID_OPEN: MethodHandler(documents.did_open),
    types.TEXT_DOCUMENT_DID_CHANGE: MethodHandler(documents.did_change),
    types.TEXT_DOCUMENT_DID_CLOSE: MethodHandler(documents.did_close),
    types.TEXT_DOCUMENT_DID_SAVE: MethodHandler(documents.did_save),
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: MethodHandler(lifecycle.did_change_configuration),
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: MethodHandler(lifecycle.did_change_workspace_folders),
    types.TEXT_DOCUMENT_INLINE_COMPLETION: MethodHandler(inline_completion, lambda: types.InlineCompletionList([])),
    types.TEXT_DOCUMENT_COMPLETION: MethodHandler(completion, lambda: types.CompletionList(False, [])),
    types.COMPLETION_ITEM_RESOLVE: MethodHandler(
        lambda session, item: with_documentation(item, markdown=session.client_capabilities.markdown)
    ),
    types.TEXT_DOCUMENT_CODE_ACTION: MethodHandler(code_action, list),
    types.CODE_ACTION_RESOLVE: MethodHandler(code_action_resolve),
    types.WORKSPACE_EXECUTE_COMMAND: MethodHandler(execute_command),
    types.WINDOW_WORK_DONE_PROGRESS_CANCEL: MethodHandler(lambda session, params: session.editor.cancel(params.token)),
    DID_ACCEPT: MethodHandler(did_accept, params=DidAcceptParams),
    DID_REJECT: MethodHandler(did_reject, params=DidRejectParams),
    DID_REST_CURSOR: MethodHandler(did_rest_cursor, lambda: None, DidRestCursorParams),
    types.NOTEBOOK_DOCUMENT_DID_OPEN: MethodHandler(documents.notebook_did_open),
    types.NOTEBOOK_DOCUMENT_DID_CHANGE: MethodHandler(documents.notebook_did_change),
    types.NOTEBOOK_DOCUMENT_DID_CLOSE: MethodHandler(documents.notebook_did_close),
    INLINE_EDIT: MethodHandler(inline_edit, lambda: NO_EDITS, InlineEditParams),
    DID_SHOW_INLINE_EDIT: MethodHandler(did_show_inline_edit),
    STATUS: MethodHandler(status, params=StatusParams),
    MODEL_OFFER: MethodHandler(model_offer),
}
_CHANGES = {types.TEXT_DOCUMENT_DID_CHANGE, types.NOTEBOOK_DOCUMENT_DID_CHANGE}
_EDITS = {types.TEXT_DOCUMENT_DID_OPEN, types.NOTEBOOK_DOCUMENT_DID_OPEN, *_CHANGES}
log = logging.getLogger(__name__)


class InfillServer(LanguageServer):
    protocol: InfillProtocol

    def __init__(self, flags: Mapping[str, Any], write: Write = lambda _: None) -> None:
        super().__init__("infill-ls", version("infill-ls"), protocol_cls=InfillProtocol)
        self.protocol.write = write
        self.protocol.leave = lambda: shutdown(self.session, self.protocol)
        self.session = session = Session(self, flags)
        statistics_writer = StatisticsWriter(session.warn)
        session.features.parts += [
            StatisticsFeature(session, statistics_writer),
            PartnerRefiner(session),
            InlineService(session),
            CompletionListService(session),
            NextEditService(session),
            ReadAheadPrefill(session),
            statistics_writer,
        ]
        self.protocol.handlers = {
            **{name: partial(method.handle, name, session) for name, method in METHODS.items()},
            types.SHUTDOWN: lambda _: self.protocol.leave(),
        }
        self.protocol.on_unreadable = self._mark_desynced

    def _mark_desynced(self, method: str, params: Any) -> None:
        """A notification could not be decoded: after a lost edit, our text no longer matches the editor's."""
        if method not in _EDITS:
            return
        uris: Sequence[str]
        try:
            if "notebookDocument" in params:
                uris = self.session.notebooks.cells_of(params["notebookDocument"]["uri"])
            else:
                uris = (params["textDocument"]["uri"],)
            self.session.mark_desynced(*uris)
        except (TypeError, KeyError):
            if method in _CHANGES:
                self.session.mark_desynced(*self.session.documents)
            log.warning("a %s could not be read, not even which file it is of", method)
