"""`infill/status` and `infill/modelOffer` (editors/README.md has the contract of both)."""

import hashlib
from typing import Any

from msgspec import Struct

from inference.models.catalogue import AUTO
from lsp_server.diagnosis.file_report import no_hole_reason
from lsp_server.diagnosis.models import better_model_offer, probe_catalogue
from lsp_server.inline import InlineService
from lsp_server.lsp.capabilities import offset_of
from lsp_server.lsp.protocol import RawDocument, RawPosition
from lsp_server.session import Session
from lsp_server.syntax.languages import grammar_of
from lsp_server.worker import WorkerError

MODEL_OFFER = "infill/modelOffer"


class StatusParams(Struct, frozen=True, rename="camel"):
    text_document: RawDocument | None = None
    position: RawPosition | None = None


async def status(session: Session, params: StatusParams) -> dict[str, Any]:
    document = _document_report(session, params)
    reason = await session.fresh_disabled_reason(params.text_document.uri) if params.text_document else None
    if reason and not document["off"]:  # its links may have been followed meanwhile
        document = {**_document_report(session, params), "off": reason}
    await session.worker.refresh()
    if session.partner is not None:
        await session.partner.refresh()
    own = {"problems": session.configuration.problems, "computing": session.is_computing}
    return session.status_report() | own | document


def _document_report(session: Session, params: StatusParams) -> dict[str, Any]:
    """The keys of the report about a document; none if the request names no document."""
    if params.text_document is None:
        return {}
    uri = params.text_document.uri
    document = session.documents.get(uri)
    off = session.disabled_reason(uri)
    report = {
        "off": off,
        "grammar": document and grammar_of(document.language_id) is not None,
        "version": document and document.version,
        "sha256": document and hashlib.sha256(document.text.encode()).hexdigest(),
    }
    if off is None and params.position is not None and (snapshot := session.snapshot(uri)):
        offset = offset_of(snapshot.lines, params.position, session.client_capabilities.encoding)
        report["noSuggestion"] = session.feature(InlineService).no_suggestion_reason(uri, offset)
        report["noHole"] = no_hole_reason(snapshot, offset, session.settings_of(uri).marker)
    return report


async def model_offer(session: Session, _: Any) -> dict[str, Any]:
    """The model to offer to a new user, once: a better one for this machine while the embedded one is in use."""
    chosen = session.settings.model
    answer: dict[str, Any] = {"offer": None, "problem": "", "model": None if chosen == AUTO else chosen}
    if chosen == AUTO:
        try:
            await session.worker.client.load()
            if session.worker.client.better_model:
                answer["offer"] = better_model_offer(await probe_catalogue(session.settings.device))
        except (WorkerError, OSError, ValueError) as error:
            answer["problem"] = str(error)
    return answer
