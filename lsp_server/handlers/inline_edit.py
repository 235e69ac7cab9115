"""`textDocument/copilotInlineEdit` and related methods: the next edit, at most one, as Copilot's server gives it."""

from collections.abc import Awaitable, Callable
from typing import Any

from lsprotocol import types
from msgspec import Struct

from lsp_server.documents.document import Snapshot
from lsp_server.lsp.capabilities import ACCEPT_COMMAND
from lsp_server.lsp.edits import range_of
from lsp_server.lsp.replies import RawPosition, read_raw
from lsp_server.next_edit.service import Offer
from lsp_server.session import Session

METHOD = "textDocument/copilotInlineEdit"
DID_SHOW = "textDocument/didShowInlineEdit"
DID_FOCUS = "textDocument/didFocus"


class _Document(Struct, frozen=True):
    uri: str
    version: int | None = None


class _InlineEditParams(Struct, frozen=True, rename="camel"):
    text_document: _Document
    position: RawPosition


class _FocusParams(Struct, frozen=True, rename="camel"):
    text_document: _Document | None = None


class _Command(Struct, frozen=True):
    arguments: list[Any] = []


class _Item(Struct, frozen=True):
    command: _Command


class _ShownParams(Struct, frozen=True):
    item: _Item


def inline_edit(session: Session, params: Any) -> dict[str, Any] | Awaitable[dict[str, Any]]:
    """`params` is raw JSON, as lsprotocol does not know the method."""
    asked: _InlineEditParams = read_raw(f"params for {METHOD}", params, _InlineEditParams)
    uri, version = asked.text_document.uri, asked.text_document.version
    document = session.documents.get(uri)
    if document is None or not session.follows_edits(uri) or version not in (None, document.version):
        return {"edits": []}
    at = (asked.position.line, asked.position.character)
    cursor = document.lines.offset(*at, session.features.encoding)
    return _answer(session, uri, session.next_edits.ask(uri, cursor, lambda: _snapshot(session, uri)))


async def _answer(session: Session, uri: str, ask: Callable[[], Awaitable[Offer | None]]) -> dict[str, Any]:
    offer = await ask()
    document = session.documents.get(uri)
    return {"edits": [] if offer is None or document is None else [_edit(session, uri, offer)]}


async def _snapshot(session: Session, uri: str) -> Snapshot | None:
    taken = session.when_parsed(uri, lambda: session.snapshot(uri), lambda: None)
    return await taken if isinstance(taken, Awaitable) else taken


def _edit(session: Session, uri: str, offer: Offer) -> dict[str, Any]:
    document, edit = session.documents[uri], offer.edit
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
    shown: _ShownParams = read_raw(f"params for {DID_SHOW}", params, _ShownParams)
    match shown.item.command.arguments:
        case [str(offer_id), str(uri)]:
            session.next_edits.shown(uri, offer_id)


def did_focus(session: Session, params: Any) -> None:
    """The user has switched to another document, or to none."""
    focused: _FocusParams = read_raw(f"params for {DID_FOCUS}", params, _FocusParams)
    if focused.text_document is not None:
        session.mark_used(focused.text_document.uri)
