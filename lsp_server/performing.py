"""From an action to its edit: shown while it runs, and only for the text that it was made for.

`codeAction/resolve` and `workspace/executeCommand` differ only in what they do with the edit.
"""

from lsprotocol import types

from lsp_server.actions.job import Job
from lsp_server.actions.outcome import STALE, Cancelled, NotDone
from lsp_server.edits import workspace_edit
from lsp_server.filling import Effort
from lsp_server.session import Session
from lsp_server.work import Report, StoppedByUser, Token
from lsp_server.worker import WorkerFailure


async def perform(session: Session, job: Job, token: Token | None) -> types.WorkspaceEdit:
    """The edit of `job`, shown under the client's progress `token` where it gave one. Raises NotDone."""

    async def work(report: Report) -> tuple[str, ...]:
        worker = await session.resident.loaded()
        return await job.texts(worker, effort, None)

    effort = Effort.of(session.settings, invoked=True)
    try:
        texts = await session.works.run(job.title, work, token=token, may_create=session.features.progress)
    except StoppedByUser:
        raise Cancelled from None
    except WorkerFailure as failure:
        raise NotDone(f"cannot fill: {failure}") from failure
    if not session.is_current(job.snapshot):
        raise NotDone(STALE)
    return workspace_edit(job.snapshot, job.holes, texts, session.features)
