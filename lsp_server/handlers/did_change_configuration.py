"""`workspace/didChangeConfiguration`: the section `infill-ls` or `infill` of the editor's settings.

Clients that can be asked often send nothing here, or leave out the settings of single folders: those are asked.
"""

from collections.abc import Awaitable, Mapping

from lsprotocol import types

from lsp_server.handlers.completion_offer import offer_completion
from lsp_server.handlers.configuration import SECTIONS, pull
from lsp_server.session import Session


def did_change_configuration(session: Session, params: types.DidChangeConfigurationParams) -> Awaitable[None] | None:
    if isinstance(params.settings, Mapping):
        section = next((section for section in SECTIONS if section in params.settings), None)
        if section is not None:
            session.configuration.take_sent(params.settings[section])
            session.show_problems()
            offer_completion(session)
    return pull(session) if session.features.configuration else None
