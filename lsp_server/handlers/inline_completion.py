"""Suggestions as ghost text (`textDocument/inlineCompletion`), or as list items (`textDocument/completion`) for editors
without it. A failed request gets an empty list, never a message.
"""

from dataclasses import replace
from typing import Annotated, Any

from lsprotocol import types
from lsprotocol.types import CompletionList, CompletionTriggerKind, InlineCompletionList, InlineCompletionTriggerKind
from msgspec import Meta, Struct

from lsp_server.documents.document import Document
from lsp_server.fill.pipeline import FillBudget
from lsp_server.inline import CompletionListService, Cursor, InlineRequest, InlineService, OnDraft, ShownSuggestions
from lsp_server.inline.read_ahead import ReadAheadPrefill
from lsp_server.lsp.capabilities import ClientCapabilities, offset_of, offsets_of
from lsp_server.lsp.completion_items import completion_item, inline_item
from lsp_server.lsp.draft_notifications import DraftSender
from lsp_server.lsp.protocol import RawDocument, RawPosition
from lsp_server.next_edit.service import NextEditService
from lsp_server.session import Session
from lsp_server.settings.schema import Settings
from lsp_server.syntax.lines import line_end, line_start

DID_ACCEPT = "infill/didAccept"
DID_REJECT = "infill/didReject"
DID_REST_CURSOR = "infill/didRest"
TRIGGER_CHARACTERS = (".", "(", "=", ":")
"""Only a few, since each one opens the editor's list with the items of all servers."""


def inline_completion(session: Session, params: types.InlineCompletionParams, document: Document) -> Any:
    """An InlineCompletionList, or a future of it."""
    session.mark_recently_used(document.uri)
    context = params.context
    capabilities = session.client_capabilities
    settings = session.settings_of(document.uri)
    info = context.selected_completion_info
    selected = (*offsets_of(document.lines, info.range, capabilities.encoding), info.text) if info else None
    invoked = context.trigger_kind == InlineCompletionTriggerKind.Invoked
    request = InlineRequest(
        Cursor(offset_of(document.lines, params.position, capabilities.encoding), selected),
        FillBudget.from_settings(settings, invoked=invoked),
        settings.marker,
        invoked=invoked,
        pause_s=settings.debounce_ms / 1000,
        on_draft=_draft_sender(session, document, params.work_done_token) if capabilities.drafts else None,
        wants_empty=capabilities.is_neovim,
    )

    def build_list(suggestions: ShownSuggestions) -> InlineCompletionList:
        text = document.text
        offset = request.cursor.offset
        around_cursor = text[line_start(text, offset) : offset], text[offset : line_end(text, offset)]
        line = around_cursor if capabilities.is_neovim else ()
        items = [inline_item(document.uri, document.lines, *pair, capabilities.encoding, line) for pair in suggestions]
        return InlineCompletionList(items=items)

    request.make_reply = build_list
    return session.feature(InlineService).complete(document.uri, request)


def _draft_sender(session: Session, document: Document, token: types.ProgressToken | None) -> OnDraft:
    """Shows drafts of the running computation, until the user types something else."""
    drafts = DraftSender(
        session.editor.notify, kind="inline", encoding=session.client_capabilities.encoding, token=token
    )
    return lambda draft, read: drafts.send(draft, document, lambda: read(document.text))


def completion(session: Session, params: types.CompletionParams, document: Document) -> Any:
    """A CompletionList, or a future of it."""
    if not _is_wanted(session.client_capabilities, session.settings_of(document.uri)):
        return CompletionList(is_incomplete=False, items=[])
    session.mark_recently_used(document.uri)
    settings = session.settings_of(document.uri)
    # clients send `Invoked` even for automatic requests while a word is typed, so it gets no larger budget
    invoked = params.context is None or params.context.trigger_kind == CompletionTriggerKind.Invoked
    offset = offset_of(document.lines, params.position, session.client_capabilities.encoding)
    budget = FillBudget.from_settings(settings, invoked=False)
    request = InlineRequest(
        Cursor(offset),
        replace(budget, min_prob=0.0) if invoked else budget,
        settings.marker,
        pause_s=0.0 if invoked else settings.debounce_ms / 1000,
    )
    version = document.version

    def build_list(suggestions: ShownSuggestions) -> CompletionList:
        """The list is always incomplete, as each typed character may bring other suggestions."""
        if document.version != version:  # the items would replace another range
            return CompletionList(is_incomplete=True, items=[])
        items = [
            completion_item(document, offset, index, suggestion, session.client_capabilities.encoding)
            for index, suggestion in enumerate(suggestions)
        ]
        return CompletionList(is_incomplete=True, items=[item for item in items if item is not None])

    request.make_reply = build_list
    service = session.feature(CompletionListService if session.client_capabilities.inline_completion else InlineService)
    return service.complete(document.uri, request)


def initial_completion_options(session: Session) -> types.CompletionOptions | None:
    """The completion options in the reply to `initialize`; None if not offered."""
    if not _is_wanted(session.client_capabilities, session.settings):
        return None
    item = types.ServerCompletionItemOptions(label_details_support=True)
    return types.CompletionOptions(list(TRIGGER_CHARACTERS), resolve_provider=True, completion_item=item)


def _is_wanted(capabilities: ClientCapabilities, settings: Settings) -> bool:
    """Whether to offer fills as list items: by default only in editors without inline completion."""
    return settings.completion == "always" or (settings.completion == "auto" and not capabilities.inline_completion)


class DidRejectParams(Struct, frozen=True, rename="camel"):
    """`id` is the first argument of the item's command."""

    text_document: RawDocument
    id: str


class DidAcceptParams(DidRejectParams, frozen=True, rename="camel"):
    """`accepted_length` counts code units, in the negotiated encoding, from the start of the item's text; None: all."""

    accepted_length: Annotated[int, Meta(ge=0)] | None = None


class DidRestCursorParams(Struct, frozen=True, rename="camel"):
    """The position where the cursor has rested for a moment, in the focused document."""

    text_document: RawDocument
    position: RawPosition


def did_rest_cursor(session: Session, params: DidRestCursorParams, document: Document) -> None:
    offset = offset_of(document.lines, params.position, session.client_capabilities.encoding)
    session.feature(ReadAheadPrefill).cursor_rested(document, offset)


def did_accept(session: Session, params: DidAcceptParams) -> None:
    accept_suggestion(session, params.text_document.uri, params.id, params.accepted_length)


def accept_suggestion(session: Session, uri: str, suggestion_id: str, units: int | None = None) -> None:
    session.feature(NextEditService).accept(uri, suggestion_id)
    for service in session.features.of_class(InlineService):
        service.accept(uri, suggestion_id, units)


def did_reject(session: Session, params: DidRejectParams) -> None:
    """The user rejected an inline completion, which then does not reappear automatically."""
    for service in session.features.of_class(InlineService):
        service.reject(params.text_document.uri, params.id)
    session.feature(NextEditService).dismiss(params.text_document.uri, params.id)
