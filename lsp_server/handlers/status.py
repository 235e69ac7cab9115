"""`infill/status` and `infill/modelOffer` (editors/README.md has the contract of both)."""

import hashlib
from collections.abc import Awaitable
from typing import Any

from inference.models.catalogue import AUTO
from lsp_server.diagnosis.file_report import why_no_hole
from lsp_server.diagnosis.model_offer import MachineLook
from lsp_server.session import Session
from lsp_server.syntax.languages import grammar_of
from lsp_server.worker import WorkerOptions

MODEL_OFFER = "infill/modelOffer"
_machine = MachineLook()


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


async def model_offer(session: Session, params: Any) -> dict[str, Any]:
    """A better model for this machine, for an editor to tell a new user once; `refresh` checks the machine again."""
    if (chosen := session.configuration.settings.model) != AUTO:
        return {"offer": None, "problem": "", "model": chosen}
    refresh = isinstance(params, dict) and params.get("refresh") is True
    found = await _machine.look(WorkerOptions(device=session.settings.device), refresh=refresh)
    return {**found._asdict(), "model": None}
