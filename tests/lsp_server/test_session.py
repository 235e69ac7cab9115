"""What a session keeps of its client, and for how long."""

import gc
from weakref import ref

from inference.messages import HoleKind
from lsp_server.carve import Span
from lsp_server.documents.change import Change
from lsp_server.handlers.did_accept import accept
from lsp_server.inline import InlineService
from lsp_server.inline.anchor import Anchor
from lsp_server.inline.suggestion import Suggestion
from lsp_server.lsp.capabilities import ClientFeatures
from lsp_server.server import InfillServer
from lsp_server.session import Session

HOLE = Span(4, 4, HoleKind.LINE)
URI = "file:///a.py"


def knows(service: InlineService, name: str, text: str) -> None:
    """A suggestion was shown."""
    shown = Suggestion(name, Anchor.of("x = \n", 4, 4, 4), text, HOLE, shown_from=0)
    service._shared.pages[URI].memory.add([shown])


def types(session: Session, text: str) -> None:
    """The text is put in."""
    for service in session.inline_services:
        page = service._shared.pages[URI]
        page.document._replace_all(f"x = {text}\n")
        service.changed(URI, [Change(4, "", text)])


async def test_what_was_accepted_of_a_list_is_known_as_accepted_where_there_is_ghost_text_too() -> None:
    session = InfillServer({}).session
    session.start(ClientFeatures(inline_completion=True), {"startWorker": False, "prefetch": False})
    session.open(URI, "python", 1, "x = \n")
    assert session.completions is not session.inline
    for service, name in ((session.inline, "ghost"), (session.completions, "listed")):
        knows(service, name, "1")
    accept(session, URI, "listed")
    types(session, "1")
    assert session.completions.shown(URI, "listed") is None
    assert session.inline.shown(URI, "ghost") is not None


async def test_of_a_client_that_has_gone_no_document_is_kept() -> None:
    """Not even until garbage is collected: a server that listens has many clients, and documents are large."""
    server = InfillServer({})
    server.session.start(ClientFeatures(), {"startWorker": False})
    server.session.open(URI, "python", 1, "x = 1\n")
    server.session.documents[URI].snapshot()
    document = ref(server.session.documents[URI])
    gc.disable()
    try:
        await server.leave()
        assert document() is None
    finally:
        gc.enable()
