"""`infill/didAccept` and the command of the same name: the user accepted an inline completion, or the start of one."""

from dataclasses import replace
from typing import Annotated, Any

from msgspec import Meta, Struct

from lsp_server.documents.positions import first_units
from lsp_server.fill.pipeline import Budget
from lsp_server.lsp.replies import read_raw
from lsp_server.session import Session

METHOD = "infill/didAccept"


class TextDocument(Struct, frozen=True):
    """A document, by its URI."""

    uri: str


class DidAcceptParams(Struct, frozen=True, rename="camel"):
    """`accepted_length` counts units of the negotiated encoding from the start of the item's text; None: all of it."""

    text_document: TextDocument
    id: str
    accepted_length: Annotated[int, Meta(ge=0)] | None = None


def did_accept(session: Session, params: Any) -> None:
    """`params` is raw JSON. Where it cannot be read, the document still gets fills."""
    accepted: DidAcceptParams = read_raw(f"params for {METHOD}", params, DidAcceptParams)
    accept(session, accepted.text_document.uri, accepted.id, accepted.accepted_length)


def accept(session: Session, uri: str, suggestion_id: str, units: int | None = None) -> None:
    """Prefetch what follows, unless the user has switched that off, or fills for this document."""
    session.next_edits.accepted(uri, suggestion_id)
    service = next(
        (service for service in session.inline_services if service.shown(uri, suggestion_id) is not None), None
    )
    shown = service.shown(uri, suggestion_id) if service else None
    if service is None or shown is None or units == 0:
        return
    taken = shown if units is None else first_units(shown, units, session.features.encoding)
    settings = session.settings_of(uri)
    prefetches = settings.prefetch and not session.why_off(uri)
    budget = replace(Budget.of(settings, invoked=False), candidates=1) if prefetches else None
    service.accepted(uri, suggestion_id, None if taken == shown else len(taken), budget, settings.marker)
