"""`infill/didReject`: the user rejected an inline completion; it does not come back by itself."""

from typing import Any

from msgspec import Struct

from lsp_server.handlers.did_accept import TextDocument
from lsp_server.lsp.replies import read_raw
from lsp_server.session import Session

METHOD = "infill/didReject"


class DidRejectParams(Struct, frozen=True, rename="camel"):
    """`id` is the first argument of the item's command."""

    text_document: TextDocument
    id: str


def did_reject(session: Session, params: Any) -> None:
    """`params` is raw JSON. Where it cannot be read, the document still gets fills."""
    rejected: DidRejectParams = read_raw(f"params for {METHOD}", params, DidRejectParams)
    for service in session.inline_services:
        service.rejected(rejected.text_document.uri, rejected.id)
    session.next_edits.dismissed(rejected.text_document.uri, rejected.id)
    session.refining.drop_gone(rejected.text_document.uri)
