"""What a session keeps of its client, and for how long."""

import gc
from weakref import ref

from lsp_server.capabilities import ClientFeatures
from lsp_server.server import InfillServer

URI = "file:///a.py"


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
