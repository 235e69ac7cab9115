"""`textDocument/inlineCompletion`: what could stand at the cursor, as ghost text.

A request that something newer stopped, that is out of date or that failed is answered with an empty list, since typing
must never raise a message.
"""

import asyncio
from collections.abc import Awaitable
from functools import partial

from lsprotocol import types
from lsprotocol.types import InlineCompletionList, InlineCompletionTriggerKind

from inference.messages import Draft
from lsp_server.fill.pipeline import Budget
from lsp_server.inline import DraftedHole, InlineAnswer, InlineRequest, InlineResult, OnDraft
from lsp_server.inline.suggestion import Cursor
from lsp_server.lsp.completion_items import ghost_text
from lsp_server.lsp.draft_notifications import DraftSender
from lsp_server.lsp.edits import offset_of, offsets_of
from lsp_server.session import Session


def inline_completion(
    session: Session, params: types.InlineCompletionParams
) -> InlineCompletionList | Awaitable[InlineCompletionList]:
    uri = params.text_document.uri
    if session.why_off(uri):
        return InlineCompletionList(items=[])
    session.mark_used(uri)
    ask = partial(session.inline.ask, uri, _request(session, params), lambda: session.snapshot(uri))
    known = session.inline.ask_known(*ask.args)
    if known is not None:  # no parse is waited for
        return _answered(session, uri, known)
    return session.when_parsed(uri, lambda: _answered(session, uri, ask()), lambda: InlineCompletionList(items=[]))


def _answered(
    session: Session, uri: str, answer: InlineAnswer
) -> InlineCompletionList | Awaitable[InlineCompletionList]:
    if not isinstance(answer, asyncio.Future):
        return _list(session, uri, answer)
    replying = asyncio.create_task(_reply(session, uri, answer))
    replying.add_done_callback(lambda _: answer.cancel())  # also when cancelled before it began to wait
    return replying


def _request(session: Session, params: types.InlineCompletionParams) -> InlineRequest:
    uri, context = params.text_document.uri, params.context
    settings, lines, encoding = session.settings_of(uri), session.documents[uri].lines, session.features.encoding
    info = context.selected_completion_info
    selected = (*offsets_of(lines, info.range, encoding), info.text) if info else None
    invoked = context.trigger_kind == InlineCompletionTriggerKind.Invoked
    return InlineRequest(
        Cursor(offset_of(lines, params.position, encoding), selected),
        Budget.of(settings, invoked=invoked),
        settings.marker,
        invoked=invoked,
        floor=settings.confidence_floor,
        pause_s=settings.debounce_ms / 1000,
        on_draft=_draft_sender(session, uri, params.work_done_token) if session.features.drafts else None,
    )


async def _reply(session: Session, uri: str, answer: "asyncio.Future[InlineResult]") -> InlineCompletionList:
    return _list(session, uri, await answer)


def _list(session: Session, uri: str, result: InlineResult) -> InlineCompletionList:
    lines, encoding = result.lines, session.features.encoding
    if lines is None:
        return InlineCompletionList(items=[])
    return InlineCompletionList(items=[ghost_text(uri, lines, *found, encoding) for found in result.found])


def _draft_sender(session: Session, uri: str, token: types.ProgressToken | None) -> OnDraft:
    """Shows what is being computed; nothing once the user has typed something else."""
    drafts = DraftSender(session.editor.notify, kind="inline", encoding=session.features.encoding, token=token)

    def send(draft: Draft, of: DraftedHole) -> None:
        document = session.documents.get(uri)
        drafts.send(draft, document, lambda: of.holes(draft, document.text) if document else [])

    return send
