"""`initialize`: the client says what it can do and what it has set, and learns what the server offers."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from lsprotocol import types

from lsp_server.handlers.completion import options_at_start
from lsp_server.handlers.execute_command import COMMANDS
from lsp_server.lsp.capabilities import client_features, server_capabilities
from lsp_server.lsp.replies import ReplyError
from lsp_server.session import Session


def initialize(session: Session, params: Any) -> types.InitializeResult:
    """`params` is raw JSON: see `InfillProtocol._decoded`."""
    if not isinstance(params, Mapping):
        raise ReplyError("invalid params for initialize: not an object", types.ErrorCodes.InvalidParams)
    session.start(client_features(params.get("capabilities")), params.get("initializationOptions"), _folders(params))
    return types.InitializeResult(
        capabilities=server_capabilities(session.features, list(COMMANDS), options_at_start(session)),
        server_info=types.ServerInfo(name="infill-ls", version=version("infill-ls")),
    )


def _folders(params: Mapping[str, Any]) -> list[str]:
    """The URIs of the workspace folders; older clients have one root instead."""
    listed = params.get("workspaceFolders")
    found = [item.get("uri") for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
    return [uri for uri in found or [params.get("rootUri")] if isinstance(uri, str)]
