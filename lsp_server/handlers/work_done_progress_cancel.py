"""`window/workDoneProgress/cancel`: the user stops the work that a progress display shows."""

from lsprotocol import types

from lsp_server.session import Session


def work_done_progress_cancel(session: Session, params: types.WorkDoneProgressCancelParams) -> None:
    session.editor.progress.cancel(params.token)
