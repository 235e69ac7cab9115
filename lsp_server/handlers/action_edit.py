"""From an action to its edit: shown while it runs, and only for the text that it was made for.

`codeAction/resolve` and `workspace/executeCommand` differ only in what they do with the edit.
"""

from collections.abc import Sequence

from lsprotocol import types

from inference.messages import Draft
from lsp_server.actions.action import Action
from lsp_server.actions.draft_progress import DraftProgress
from lsp_server.actions.failures import LEFT, STALE, Cancelled, NotDone
from lsp_server.fill.candidates import standing, unfilled
from lsp_server.fill.pipeline import Budget
from lsp_server.lsp.draft_notifications import DraftSender
from lsp_server.lsp.edits import workspace_edit
from lsp_server.lsp.progress import Report, StoppedByUser, Token
from lsp_server.session import Session
from lsp_server.worker import WorkerFailure
from lsp_server.worker.link import OnDraft


async def perform(session: Session, job: Action, token: Token | None) -> tuple[types.WorkspaceEdit, str | None]:
    """The edit of `job`, shown under the client's progress `token` where it gave one, and what is left to do.

    Raises NotDone.
    """
    effort = Budget.of(session.settings_of(job.snapshot.uri), invoked=True)

    async def work(report: Report) -> tuple[str, ...]:
        worker = await session.worker.loaded()
        context = await session.gather_context(job.snapshot, job.holes[0].start if job.holes else 0)
        return await job.texts(worker, effort, _on_draft(session, job, token, report), context)

    try:
        texts = await session.editor.progress.run(job.title, work, token=token, may_create=session.features.progress)
    except StoppedByUser:
        raise Cancelled from None
    except WorkerFailure as failure:
        raise NotDone(f"cannot fill: {failure}") from failure
    if not session.is_current(job.snapshot):
        raise NotDone(STALE)
    return workspace_edit(job.snapshot, job.holes, texts, session.features), _left(job, texts)


def _left(job: Action, texts: Sequence[str]) -> str | None:
    left = unfilled(texts, standing(job.snapshot, job.holes))
    return LEFT.format(left, len(job.holes)) if left else None


def _on_draft(session: Session, job: Action, token: Token | None, report: Report) -> OnDraft | None:
    """What is done with each draft; None where nobody would see them, for they cost a little."""
    if token is None and not (session.features.progress or session.features.drafts):
        return None
    pace, drafts = DraftProgress(), _drafts(session, job, token)

    def on_draft(draft: Draft) -> None:
        report(*pace(draft))
        if drafts is not None:
            drafts(draft)

    return on_draft


def _drafts(session: Session, job: Action, token: Token | None) -> DraftSender | None:
    if not session.features.drafts:
        return None
    return DraftSender(
        session.editor.notify,
        job.snapshot,
        job.holes,
        kind="action",
        encoding=session.features.encoding,
        token=token,
        is_current=lambda: session.is_current(job.snapshot),
    )
