"""`infill/didReject`: the user rejected an inline completion; it does not come back by itself."""

import logging
from typing import Any

import msgspec
from msgspec import Struct

from lsp_server.handlers.did_accept import TextDocument
from lsp_server.session import Session

METHOD = "infill/didReject"
log = logging.getLogger(__name__)


class DidRejectParams(Struct, frozen=True, rename="camel"):
    """`id` is the first argument of the item's command."""

    text_document: TextDocument
    id: str


def did_reject(session: Session, params: Any) -> None:
    """`params` is raw JSON; where it cannot be read, the document still gets fills."""
    try:
        rejected = msgspec.convert(params, DidRejectParams)
    except msgspec.ValidationError as error:
        log.warning("ignored %s: %s", METHOD, error)
        return
    for service in session.inline_services:
        service.rejected(rejected.text_document.uri, rejected.id)
