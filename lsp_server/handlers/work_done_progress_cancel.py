"""`window/workDoneProgress/cancel`: the user has had enough of what a progress display shows."""

from lsprotocol import types

from lsp_server.session import Session


def work_done_progress_cancel(session: Session, params: types.WorkDoneProgressCancelParams) -> None:
    session.progress.cancel(params.token)
