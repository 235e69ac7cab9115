"""`completionItem/resolve`: the whole text of an item, to be read before it is accepted."""

from lsprotocol.types import CompletionItem

from lsp_server.lsp.completion_items import documented
from lsp_server.session import Session


def completion_resolve(session: Session, item: CompletionItem) -> CompletionItem:
    return documented(item, session.features.completion)
