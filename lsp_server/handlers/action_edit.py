"""Carry out an action: show its progress, and make an edit if the text is still the one it was made for.

`codeAction/resolve` and `workspace/executeCommand` differ only in what they do with the edit.
"""

import time

from lsprotocol import types

from inference.messages import Draft
from lsp_server.actions.action import Action
from lsp_server.actions.kinds import STALE, Cancelled, NotDone
from lsp_server.fill.candidates import current_texts
from lsp_server.fill.drafts import DraftProgress, DraftReader
from lsp_server.fill.pipeline import Budget, left_as_they_are
from lsp_server.lsp.draft_notifications import DraftSender
from lsp_server.lsp.edits import workspace_edit
from lsp_server.lsp.progress import Report, StoppedByUser
from lsp_server.session import Session
from lsp_server.usage.document_usage import Timing
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
    asked_s, drafted_s = budget.began_s, list[float]()

    async def work(report: Report) -> tuple[str, ...]:
        nonlocal budget
        began_s = time.monotonic()
        worker = await session.worker.loaded()
        budget = budget.extended(time.monotonic() - began_s)
        if reason := await session.why_off_now(action.snapshot.uri):
            raise NotDone(f"cannot fill: {reason}")
        context = await session.gather_context(action.snapshot, action.holes[0].start if action.holes else 0)
        on_draft = _on_draft(session, action, token, report, drafted_s)
        return await action.texts(worker, budget, on_draft, context)

    try:
        texts = await session.editor.progress.run(action.title, work, token=token, may_create=session.features.progress)
    except StoppedByUser:
        raise Cancelled from None
    except WorkerFailure as failure:
        raise NotDone(f"cannot fill: {failure}") from failure
    if not session.is_current(action.snapshot):
        raise NotDone(STALE)
    timing = Timing(asked_s, next(iter(drafted_s), None))
    session.usage.of(session.documents[action.snapshot.uri]).filled(action.snapshot, action.holes, texts, timing)
    edit = workspace_edit(action.snapshot, action.holes, texts, session.features)
    return edit, left_as_they_are(texts, current_texts(action.snapshot, action.holes))


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
