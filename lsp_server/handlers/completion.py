"""`textDocument/completion`: the suggestions as list items, for editors without inline completion."""

from collections.abc import Awaitable

from lsprotocol import types
from lsprotocol.types import CompletionList, CompletionTriggerKind

from lsp_server.documents.document import Document
from lsp_server.fill.pipeline import Budget
from lsp_server.inline import Cursor, Found, InlineRequest, InlineService, ListService
from lsp_server.lsp.capabilities import ClientFeatures, offset_of
from lsp_server.lsp.completion_items import list_item
from lsp_server.session import Session
from lsp_server.settings.schema import Settings

TRIGGER_CHARACTERS = (".", "(", "=", ":")
"""Few: each opens the editor's list, with everything else in it."""


def completion(
    session: Session, params: types.CompletionParams, document: Document
) -> CompletionList | Awaitable[CompletionList]:
    if not _is_wanted(session.features, session.settings_of(document.uri)):
        return CompletionList(is_incomplete=False, items=[])
    session.mark_used(document.uri)
    settings = session.settings_of(document.uri)
    # clients say `Invoked` even for automatic requests while a word is typed, so it is treated as cheaply
    asked = params.context is None or params.context.trigger_kind == CompletionTriggerKind.Invoked
    offset = offset_of(document.lines, params.position, session.features.encoding)
    request = InlineRequest(
        Cursor(offset),
        Budget.of(settings, invoked=False),
        settings.marker,
        floor=0.0 if asked else settings.confidence_floor,
        pause_s=0.0 if asked else settings.debounce_ms / 1000,
    )
    version = document.version

    def listed(found: Found) -> CompletionList:
        """Always incomplete: each typed character may bring other suggestions."""
        if document.version != version:  # the items would replace another range
            return CompletionList(is_incomplete=True, items=[])
        numbered = enumerate(found)
        items = [list_item(document, offset, number, each, session.features.encoding) for number, each in numbered]
        return CompletionList(is_incomplete=True, items=[item for item in items if item is not None])

    request.reply = listed
    service = session.feature(ListService if session.features.inline_completion else InlineService)
    answer: CompletionList | Awaitable[CompletionList] = service.ask(document.uri, request)
    return answer


def options_at_start(session: Session) -> types.CompletionOptions | None:
    """The completion options in the reply to `initialize`; None if not offered."""
    if not _is_wanted(session.features, session.settings):
        return None
    item = types.ServerCompletionItemOptions(label_details_support=True)
    return types.CompletionOptions(list(TRIGGER_CHARACTERS), resolve_provider=True, completion_item=item)


def _is_wanted(features: ClientFeatures, settings: Settings) -> bool:
    """Whether to offer fills as list items: by default only in editors without inline completion."""
    return settings.completion == "always" or (settings.completion == "auto" and not features.inline_completion)
