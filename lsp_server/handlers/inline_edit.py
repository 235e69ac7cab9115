"""`textDocument/copilotInlineEdit` and related methods: the next edit, at most one, as Copilot's server gives it."""

from typing import Any

from lsprotocol import types
from msgspec import Struct

from lsp_server.documents.document import Document
from lsp_server.lsp.capabilities import ACCEPT_COMMAND, lsp_range, offset_of
from lsp_server.lsp.protocol import RawDocument, RawPosition
from lsp_server.next_edit.service import NextEditService, Offer
from lsp_server.session import Session

INLINE_EDIT = "textDocument/copilotInlineEdit"
DID_SHOW_INLINE_EDIT = "textDocument/didShowInlineEdit"


class InlineEditParams(Struct, frozen=True, rename="camel"):
    text_document: RawDocument
    position: RawPosition


NO_EDITS: dict[str, Any] = {"edits": []}
"""The reply if there is no next edit."""


async def inline_edit(session: Session, params: InlineEditParams, document: Document) -> dict[str, Any]:
    uri = document.uri
    version = params.text_document.version
    if version not in (None, document.version):
        return NO_EDITS
    encoding = session.client_capabilities.encoding
    cursor = offset_of(document.lines, params.position, encoding)
    offer = await session.feature(NextEditService).next_offer(document, cursor)
    if offer is None or (current := session.documents.get(uri)) is None:
        return NO_EDITS
    edit = {
        "text": offer.edit.text,
        "range": lsp_range(current.lines, offer.edit.start, offer.edit.end, encoding),
        "textDocument": {"uri": uri, "version": current.version},
        "command": accept_command(uri, offer),
    }
    return {"edits": [edit]}


def accept_command(uri: str, offer: Offer) -> types.Command:
    """The command that the client runs after it has applied an offer."""
    return types.Command(f"Next edit: {offer.edit.why}", ACCEPT_COMMAND, arguments=[offer.id, uri])


def did_show_inline_edit(session: Session, params: Any) -> None:
    """The user sees an offer: `item` is an edit from an answer."""
    match params:
        case {"item": {"command": {"arguments": [str(offer_id), str(uri)]}}}:
            session.feature(NextEditService).mark_shown(uri, offer_id)
