"""`textDocument/completion`: the suggestions at the cursor as list items, for editors without inline completion.

They come from where inline completions come from, so that what is typed through needs no request to the worker.
Stopped by something newer, out of date or failed: the answer is an empty list.
"""

import asyncio
from collections.abc import Awaitable

from lsprotocol import types
from lsprotocol.types import CompletionList, CompletionTriggerKind

from lsp_server.fill.pipeline import Budget
from lsp_server.handlers.completion_offer import is_wanted
from lsp_server.inline import InlineRequest, InlineResult
from lsp_server.inline.suggestion import Cursor
from lsp_server.lsp.completion_items import item_of
from lsp_server.session import Session

GRACE_S = 0.5
"""How much later than the deadline an answer may be before the list is shown without it, as while the model loads."""


def completion(session: Session, params: types.CompletionParams) -> CompletionList | Awaitable[CompletionList]:
    uri = params.text_document.uri
    if session.why_off(uri) or not is_wanted(session.features, session.settings_of(uri)):
        return CompletionList(is_incomplete=False, items=[])
    request = _request(session, params)
    answer = session.completions.ask(uri, request, lambda: session.snapshot(uri))
    if not isinstance(answer, asyncio.Future):
        return _listed(session, uri, request, answer)
    replying = asyncio.create_task(_reply(session, uri, session.documents[uri].version, request, answer))
    replying.add_done_callback(lambda _: answer.cancel())  # also when cancelled before it began to wait
    return replying


def _request(session: Session, params: types.CompletionParams) -> InlineRequest:
    """Clients say `Invoked` also for what comes by itself while a word is typed: it costs no more than that."""
    uri, position = params.text_document.uri, params.position
    settings, document = session.settings_of(uri), session.documents[uri]
    cursor = document.lines.offset(position.line, position.character, session.features.encoding)
    asked = params.context is None or params.context.trigger_kind == CompletionTriggerKind.Invoked
    return InlineRequest(
        Cursor(cursor),
        Budget.of(settings, invoked=False),
        settings.marker,
        floor=0.0 if asked else settings.confidence_floor,
        pause_s=0.0 if asked else settings.debounce_ms / 1000,
    )


async def _reply(
    session: Session, uri: str, version: int, request: InlineRequest, answer: "asyncio.Future[InlineResult]"
) -> CompletionList:
    await asyncio.wait({answer}, timeout=request.budget.deadline_ms / 1000 + GRACE_S)
    now = session.documents.get(uri)
    is_current = now is not None and now.version == version  # else the item's place would be another
    return _listed(session, uri, request, answer.result() if answer.done() and is_current else InlineResult())


def _listed(session: Session, uri: str, request: InlineRequest, result: InlineResult) -> CompletionList:
    """Incomplete, always: with each character typed there may be other suggestions."""
    document, features = session.documents.get(uri), session.features
    found = enumerate(result.found)
    items = [item_of(document, request.cursor.offset, number, it, features) for number, it in found if document]
    return CompletionList(is_incomplete=True, items=[item for item in items if item is not None])
