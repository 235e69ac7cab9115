"""`infill/status` and `infill/modelOffer` (editors/README.md has the contract of both)."""

import hashlib
from collections.abc import Awaitable
from typing import Any

from inference.models.catalogue import AUTO
from lsp_server.diagnosis.file_report import why_no_hole
from lsp_server.diagnosis.models import offer, probed_catalogue
from lsp_server.session import Session
from lsp_server.syntax.languages import grammar_of
from lsp_server.worker import WorkerFailure

MODEL_OFFER = "infill/modelOffer"


def status(session: Session, params: Any) -> Awaitable[dict[str, Any]]:
    return _report(session, params, _of_document(session, params))


async def _report(session: Session, params: Any, document: dict[str, Any]) -> dict[str, Any]:
    uri = _uri(params)
    off = await session.why_off_now(uri) if uri is not None else None
    if off and not document["off"]:  # its links may have been followed meanwhile
        document = {**_of_document(session, params), "off": off}
    await session.worker.refresh()
    if session.partner is not None:
        await session.partner.refresh()
    own = {"problems": session.configuration.problems, "computing": session.is_computing}
    return session.status_report() | own | document


def _uri(params: Any) -> str | None:
    named = params.get("textDocument") if isinstance(params, dict) else None
    uri = named.get("uri") if isinstance(named, dict) else None
    return uri if isinstance(uri, str) else None


def _of_document(session: Session, params: Any) -> dict[str, Any]:
    """The keys about a document when the request arrives; none if the request names no document."""
    uri = _uri(params)
    if uri is None:
        return {}
    document = session.documents.get(uri)
    digest = document and hashlib.sha256(document.text.encode()).hexdigest()
    off = session.why_off(uri)
    return {
        "off": off,
        "grammar": document and grammar_of(document.language_id) is not None,
        "version": document and document.version,
        "sha256": digest,
        **({} if off else _of_position(session, uri, params.get("position"))),
    }


def _of_position(session: Session, uri: str, position: Any) -> dict[str, Any]:
    """The keys about a position; none if the request names no position."""
    line, character = (position.get("line"), position.get("character")) if isinstance(position, dict) else (None, None)
    snapshot = session.snapshot(uri)
    if snapshot is None or not isinstance(line, int) or not isinstance(character, int) or min(line, character) < 0:
        return {}
    offset = snapshot.lines.offset(line, character, session.features.encoding)
    return {"noHole": why_no_hole(snapshot, offset, session.settings_of(uri).marker)}


async def model_offer(session: Session, _: Any) -> dict[str, Any]:
    """What an editor tells a new user once: a better model for this machine, if the embedded one must do."""
    chosen = session.settings.model
    answer: dict[str, Any] = {"offer": None, "problem": "", "model": None if chosen == AUTO else chosen}
    if chosen == AUTO:
        try:
            await session.worker.loaded()
            if session.worker.makes_do:
                answer["offer"] = offer(await probed_catalogue(session.settings.device))
        except (WorkerFailure, OSError, ValueError) as error:
            answer["problem"] = str(error)
    return answer
