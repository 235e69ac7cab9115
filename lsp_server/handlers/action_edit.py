"""Carry out an action: show its progress, and make an edit if the text is still the one it was made for.

`codeAction/resolve` and `workspace/executeCommand` differ only in what they do with the edit.
"""

import time
from collections.abc import Sequence

from lsprotocol import types

from inference.messages import Draft
from lsp_server.actions.action import Action, ActionResult
from lsp_server.actions.kinds import STALE, ActionKind, Cancelled, NotDone, strength_of
from lsp_server.fill.candidates import current_texts
from lsp_server.fill.drafts import DraftProgress, DraftReader
from lsp_server.fill.pipeline import Budget, FillOptions, left_as_they_are
from lsp_server.lsp.draft_notifications import DraftSender
from lsp_server.lsp.edits import workspace_edit
from lsp_server.lsp.progress import Report, StoppedByUser
from lsp_server.lsp.worker_connection import WorkerConnection
from lsp_server.refine.refining import NO_PARTNER
from lsp_server.session import Session
from lsp_server.shadow import AnsweredRequest
from lsp_server.usage.document_usage import Timing
from lsp_server.usage.text_range import TextRange
from lsp_server.worker import WorkerFailure
from lsp_server.worker.link import OnDraft


async def perform(
    session: Session, action: Action, budget: Budget, token: types.ProgressToken | None
) -> tuple[types.WorkspaceEdit, str | None]:
    """The edit of `action`, and in words which holes it leaves as they are. Raises NotDone.

    The time in which the model is loaded is no part of the budget. Progress is shown under the client's `token` where
    it gave one.
    """
    session.mark_used(action.snapshot.uri)
    with session.shadow.held():
        return await _performed(session, action, budget, token)


async def _performed(
    session: Session, action: Action, budget: Budget, token: types.ProgressToken | None
) -> tuple[types.WorkspaceEdit, str | None]:
    asked_s, drafted_s = budget.began_s, list[float]()
    sent_s, is_refined = asked_s, action.kind is ActionKind.REFINE
    if is_refined and session.is_current(action.snapshot):  # the other model has been asked already
        session.shadow.refined(action.snapshot.uri, [TextRange(hole.start, hole.end) for hole in action.holes])

    async def work(report: Report) -> ActionResult:
        nonlocal budget, sent_s
        if is_refined and not action.instruction and (ready := session.refining.ready(action.snapshot, action.holes)):
            return ActionResult(ready, 1.0)
        began_s = time.monotonic()
        line = _line(session, action)
        with line.asked():
            worker = await line.loaded()
        budget = budget.extended(time.monotonic() - began_s)
        if reason := await session.why_off_now(action.snapshot.uri):
            raise NotDone(f"cannot fill: {reason}")
        session.shadow.asked()
        at = action.holes[0].start if action.holes else 0
        context = await session.context_for(action.snapshot, at, worker.last_status)
        on_draft = _on_draft(session, action, token, report, drafted_s)
        sent_s = time.monotonic()
        asked = budget.from_now() if action.kind is ActionKind.REFINE else budget  # the partner's own time
        with line.asked():
            return await action.filled(worker, asked, on_draft, context)

    try:
        texts, confidence = await session.editor.progress.run(
            action.title, work, token=token, may_create=session.features.progress
        )
    except StoppedByUser:
        raise Cancelled from None
    except WorkerFailure as failure:
        raise NotDone(f"cannot fill: {failure}") from failure
    if not session.is_current(action.snapshot):
        raise NotDone(STALE)
    whole_ms, usage = (time.monotonic() - sent_s) * 1000, session.usage.of(session.documents[action.snapshot.uri])
    timing = Timing(asked_s, next(iter(drafted_s), None))
    keys = usage.filled(action.snapshot, action.holes, texts, timing)
    first_ms = (drafted_s[0] - sent_s) * 1000 if drafted_s else None
    if not is_refined:
        session.shadow.answered(_answered(action, texts, keys, budget, first_ms, whole_ms))
    session.refining.expect(action.snapshot, action.holes, texts, 1.0 if is_refined else confidence)
    edit = workspace_edit(action.snapshot, action.holes, texts, session.features)
    return edit, left_as_they_are(texts, current_texts(action.snapshot, action.holes))


def _line(session: Session, action: Action) -> WorkerConnection:
    """Whom the action asks. Raises NotDone."""
    if action.kind is not ActionKind.REFINE:
        return session.worker
    if session.partner_line is None:
        raise NotDone(NO_PARTNER)
    return session.partner_line


def _answered(
    action: Action,
    texts: tuple[str, ...],
    keys: Sequence[int | None],
    budget: Budget,
    first_ms: float | None,
    whole_ms: float,
) -> AnsweredRequest:
    return AnsweredRequest(
        action.snapshot,
        action.holes,
        [TextRange(hole.start, hole.end) for hole in action.holes],
        texts,
        keys,
        "action",
        budget,
        action.marker,
        None,
        first_ms,
        whole_ms,
        FillOptions(strength_of(action.kind, action.strength), action.instruction),
    )


def _on_draft(
    session: Session, action: Action, token: types.ProgressToken | None, report: Report, drafted_s: list[float]
) -> OnDraft | None:
    """What to do with each draft; None where nobody would see them, since they cost a little.

    `drafted_s` gets the time of each that is shown.
    """
    if token is None and not (session.features.progress or session.features.drafts):
        return None
    progress, show = DraftProgress(), _show_drafts(session, action, token)

    def on_draft(draft: Draft) -> None:
        report(*progress.after(draft))
        if show is not None:
            drafted_s.append(time.monotonic())
            show(draft)

    return on_draft


def _show_drafts(session: Session, action: Action, token: types.ProgressToken | None) -> OnDraft | None:
    if not session.features.drafts:
        return None
    snapshot, reader = action.snapshot, DraftReader(action.snapshot, action.holes)
    drafts = DraftSender(session.editor.notify, kind="action", encoding=session.features.encoding, token=token)

    def show(draft: Draft) -> None:
        drafts.send(draft, snapshot if session.is_current(snapshot) else None, lambda: reader.read(draft))

    return show
