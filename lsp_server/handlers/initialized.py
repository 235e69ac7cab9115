"""`initialized`: the client listens now, so problems can be shown, and the model can start to load."""

from lsprotocol import types

from lsp_server.session import Session


def initialized(session: Session, _: types.InitializedParams) -> None:
    session.show_problems()
    if session.settings.start_worker:
        session.resident.warm_up()
