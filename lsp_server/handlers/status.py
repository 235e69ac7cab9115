"""`infill/status`: how the model is, and why a document gets no fills. See `lsp_server.status` for the answer."""

from typing import Any

from lsp_server.session import Session


async def status(session: Session, params: Any) -> dict[str, Any]:
    uri = _uri(params)
    off = {} if uri is None else {"off": session.why_off(uri)}
    await session.resident.refresh()
    return session.resident.status.report() | off


def _uri(params: Any) -> str | None:
    document = params.get("textDocument") if isinstance(params, dict) else None
    uri = document.get("uri") if isinstance(document, dict) else None
    return uri if isinstance(uri, str) else None
