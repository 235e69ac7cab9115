"""`textDocument/copilotInlineEdit` and related methods: the next edit, at most one, as Copilot's server gives it."""

from collections.abc import Awaitable, Callable
from typing import Any

from lsprotocol import types
from msgspec import Struct

from lsp_server.documents.document import Document, Snapshot
from lsp_server.lsp.capabilities import ACCEPT_COMMAND, range_of
from lsp_server.lsp.dispatch import RawDocument, RawPosition
from lsp_server.next_edit.service import NextEditService, Offer
from lsp_server.session import Session

METHOD = "textDocument/copilotInlineEdit"
DID_SHOW = "textDocument/didShowInlineEdit"
DID_FOCUS = "textDocument/didFocus"


class InlineEditParams(Struct, frozen=True, rename="camel"):
    text_document: RawDocument
    position: RawPosition


NONE: dict[str, Any] = {"edits": []}
"""No edit follows."""


def inline_edit(
    session: Session, params: InlineEditParams, document: Document
) -> dict[str, Any] | Awaitable[dict[str, Any]]:
    uri = document.uri
    version = params.text_document.version
    if not session.settings_of(uri).next_edit.enabled or version not in (None, document.version):
        return NONE
    at = (params.position.line, params.position.character)
    cursor = document.lines.offset(*at, session.features.encoding)
    asked = session.feature(NextEditService).ask(uri, cursor, lambda: _snapshot(session, document))
    return _answer(session, uri, asked)


async def _answer(session: Session, uri: str, ask: Callable[[], Awaitable[Offer | None]]) -> dict[str, Any]:
    offer = await ask()
    document = session.documents.get(uri)
    return {"edits": [] if offer is None or document is None else [_edit(session, uri, offer)]}


async def _snapshot(session: Session, document: Document) -> Snapshot | None:
    if session.documents.get(document.uri) is not document:
        return None
    found = session.parsed(document)
    return found if isinstance(found, Snapshot) else await found


def _edit(session: Session, uri: str, offer: Offer) -> dict[str, Any]:
    document = session.documents[uri]
    edit = offer.edit
    return {
        "text": edit.text,
        "range": range_of(document.lines, edit.start, edit.end, session.features.encoding),
        "textDocument": {"uri": uri, "version": document.version},
        "command": accept_command(uri, offer),
    }


def accept_command(uri: str, offer: Offer) -> types.Command:
    """The command that the client runs once an offer is in the text."""
    return types.Command(f"Next edit: {offer.edit.why}", ACCEPT_COMMAND, arguments=[offer.id, uri])


def did_show_inline_edit(session: Session, params: Any) -> None:
    """The user sees an offer: `item` is an edit from an answer."""
    match params:
        case {"item": {"command": {"arguments": [str(offer_id), str(uri)]}}}:
            session.feature(NextEditService).show(uri, offer_id)


def did_focus(session: Session, params: Any) -> None:
    """The user has switched to another document, or to none."""
    match params:
        case {"textDocument": {"uri": str(uri)}}:
            session.mark_used(uri)
