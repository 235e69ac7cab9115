"""A service for the inline completions of one document, with the statistics as its listener."""

from lsp_server.documents.document import Document, Snapshot
from lsp_server.inline import InlineService
from lsp_server.inline.runner import Connection, GatherContext
from lsp_server.session.record import Record
from lsp_server.usage.usage import Usage


async def no_context(*_: object) -> tuple[()]:
    return ()


async def may_send(_: Snapshot) -> bool:
    return True


def inline_service(
    document: Document, connection: Connection, gather: GatherContext = no_context, usage: Usage | None = None
) -> InlineService:
    documents = {document.uri: document}
    record = Record(documents, usage or Usage(lambda *_: None))
    return InlineService(documents, connection, gather, may_send, record, lambda _: None)
