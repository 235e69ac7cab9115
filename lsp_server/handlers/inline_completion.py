"""`textDocument/inlineCompletion`: what could stand at the cursor, as ghost text.

Stopped by something newer, out of date or failed: the answer is an empty list, for typing must never raise a message.
"""

import asyncio
from collections.abc import Awaitable

from lsprotocol import types
from lsprotocol.types import InlineCompletionItem, InlineCompletionList, InlineCompletionTriggerKind

from inference.messages import Draft
from lsp_server.documents.positions import Encoding, LineIndex
from lsp_server.fill.pipeline import Budget
from lsp_server.inline import DraftedHole, InlineRequest, InlineResult, OnDraft
from lsp_server.inline.suggestion import Cursor, Shown, Suggestion
from lsp_server.lsp import draft_notifications
from lsp_server.lsp.completion_items import accept_command
from lsp_server.session import Session


def inline_completion(
    session: Session, params: types.InlineCompletionParams
) -> InlineCompletionList | Awaitable[InlineCompletionList]:
    uri = params.text_document.uri
    if session.why_off(uri):
        return InlineCompletionList(items=[])
    session.mark_used(uri)
    answer = session.inline.ask(uri, _request(session, params), lambda: session.snapshot(uri))
    if not isinstance(answer, asyncio.Future):
        return _list(session, uri, answer)
    replying = asyncio.create_task(_reply(session, uri, answer))
    replying.add_done_callback(lambda _: answer.cancel())  # also when cancelled before it began to wait
    return replying


def _request(session: Session, params: types.InlineCompletionParams) -> InlineRequest:
    uri, context = params.text_document.uri, params.context
    settings, lines = session.settings_of(uri), session.documents[uri].lines

    def offset(position: types.Position) -> int:
        return lines.offset(position.line, position.character, session.features.encoding)

    info, selected = context.selected_completion_info, None
    if info is not None:
        selected = (offset(info.range.start), offset(info.range.end), info.text)
    invoked = context.trigger_kind == InlineCompletionTriggerKind.Invoked
    return InlineRequest(
        Cursor(offset(params.position), selected),
        Budget.of(settings, invoked=invoked),
        settings.marker,
        invoked=invoked,
        floor=settings.confidence_floor,
        pause_s=settings.debounce_ms / 1000,
        on_draft=_teller(session, uri, params.work_done_token) if session.features.drafts else None,
    )


async def _reply(session: Session, uri: str, answer: "asyncio.Future[InlineResult]") -> InlineCompletionList:
    return _list(session, uri, await answer)


def _list(session: Session, uri: str, result: InlineResult) -> InlineCompletionList:
    lines, encoding = result.lines, session.features.encoding
    if lines is None:
        return InlineCompletionList(items=[])
    return InlineCompletionList(items=[_item(uri, lines, encoding, *found) for found in result.found])


def _item(uri: str, lines: LineIndex, encoding: Encoding, suggestion: Suggestion, shown: Shown) -> InlineCompletionItem:
    """No `filter_text`: what stands in the range is always the start of the text, which is what editors filter by."""
    start, end = (types.Position(*lines.position(at, encoding)) for at in (shown.start, shown.end))
    place = types.Range(start=start, end=end)
    return InlineCompletionItem(insert_text=shown.text, range=place, command=accept_command(suggestion, uri))


def _teller(session: Session, uri: str, token: draft_notifications.Token) -> OnDraft:
    """Shows what is being computed; nothing once the user has typed something else."""
    encoding = session.features.encoding
    drafts = draft_notifications.DraftSender(session.editor.notify, kind="inline", encoding=encoding, token=token)

    def tell(draft: Draft, of: DraftedHole) -> None:
        document = session.documents.get(uri)
        drafts.send(draft, document, lambda: of.holes(draft, document.text) if document else [])

    return tell
