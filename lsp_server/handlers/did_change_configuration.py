"""`workspace/didChangeConfiguration`: the section `infill-ls` or `infill` of the editor's settings."""

from collections.abc import Mapping

from lsprotocol import types

from lsp_server.session import Session

SECTIONS = ("infill-ls", "infill")


def did_change_configuration(session: Session, params: types.DidChangeConfigurationParams) -> None:
    for section in SECTIONS:
        if isinstance(params.settings, Mapping) and section in params.settings:
            session.change_settings(params.settings[section])
            return
