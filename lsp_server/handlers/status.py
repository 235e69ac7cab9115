"""`infill/status`: how the model is, and how a document stands. See `lsp_server.status` for the answer."""

import hashlib
from collections.abc import Awaitable
from typing import Any

from lsp_server.session import Session


def status(session: Session, params: Any) -> Awaitable[dict[str, Any]]:
    return _report(session, _of_document(session, params))


async def _report(session: Session, document: dict[str, Any]) -> dict[str, Any]:
    await session.resident.refresh()
    return session.resident.status.report() | document


def _of_document(session: Session, params: Any) -> dict[str, Any]:
    """What is asked of a document, as it stands when the request comes; nothing where none is named."""
    named = params.get("textDocument") if isinstance(params, dict) else None
    uri = named.get("uri") if isinstance(named, dict) else None
    if not isinstance(uri, str):
        return {}
    document = session.documents.get(uri)
    digest = document and hashlib.sha256(document.text.encode()).hexdigest()
    return {"off": session.why_off(uri), "version": document and document.version, "sha256": digest}
