"""`textDocument/inlineCompletion`: what could stand at the cursor, as ghost text.

Stopped by something newer, out of date or failed: the answer is an empty list, for typing must never raise a message.
"""

import logging
from collections.abc import Awaitable

from lsprotocol import types
from lsprotocol.types import InlineCompletionItem, InlineCompletionList, InlineCompletionTriggerKind

from lsp_server import carve
from lsp_server.document import Snapshot
from lsp_server.edits import range_of
from lsp_server.filling import Effort, fill
from lsp_server.session import Session
from lsp_server.worker import WorkerFailure

log = logging.getLogger(__name__)


def inline_completion(
    session: Session, params: types.InlineCompletionParams
) -> InlineCompletionList | Awaitable[InlineCompletionList]:
    snapshot = session.snapshot(params.text_document.uri)
    if snapshot is None:
        return InlineCompletionList(items=[])
    position = params.position
    cursor = snapshot.lines.offset(position.line, position.character, session.features.encoding)
    span = carve.at_cursor(snapshot, cursor, session.settings.marker)
    if span is None or not _on_one_line(snapshot, span):
        return InlineCompletionList(items=[])
    invoked = params.context.trigger_kind == InlineCompletionTriggerKind.Invoked
    return _or_empty(session.inline.start(snapshot.uri, _items(session, snapshot, span, invoked), invoked=invoked))


async def _items(session: Session, snapshot: Snapshot, span: carve.Span, invoked: bool) -> InlineCompletionList:
    effort, resident = Effort.of(session.settings, invoked=invoked), session.resident
    try:
        worker = await resident.loaded() if invoked else resident.client
        answers = (await fill(worker, snapshot, [span], effort)).answers
    except WorkerFailure as failure:
        log.warning("no inline completion: %s", failure)
        answers = []
    if not session.is_current(snapshot):
        answers = []
    range_ = range_of(snapshot, span, session.features.encoding)
    return InlineCompletionList(items=[InlineCompletionItem(insert_text=text, range=range_) for (text,) in answers])


async def _or_empty(outcome: Awaitable[InlineCompletionList | None]) -> InlineCompletionList:
    return await outcome or InlineCompletionList(items=[])


def _on_one_line(snapshot: Snapshot, span: carve.Span) -> bool:
    """Editors show no ghost text over several lines of the document; such a hole has a code action."""
    return snapshot.lines.line_of(span.start) == snapshot.lines.line_of(span.end)
