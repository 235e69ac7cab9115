"""Whether completions are offered at all: by the setting `completion`, to editors without inline completion unless told
otherwise. Clients that let themselves be told later are told when that changes.
"""

import asyncio
import logging

from lsprotocol import types

from lsp_server.lsp.capabilities import ClientFeatures
from lsp_server.session import Session
from lsp_server.settings.schema import Settings

log = logging.getLogger(__name__)
ID = "infill-ls/completion"
TRIGGER_CHARACTERS = (".", "(", "=", ":")
"""Few: each opens the editor's list, with whatever else is in it."""


def is_wanted(features: ClientFeatures, settings: Settings) -> bool:
    """Whether fills are to be list items."""
    return settings.completion == "always" or (settings.completion == "auto" and not features.inline_completion)


def options_at_start(session: Session) -> types.CompletionOptions | None:
    """What `initialize` says of completion; None when it is not offered, or said later."""
    features = session.features
    if features.completion.registers or not is_wanted(features, session.settings):
        return None
    return types.CompletionOptions(list(TRIGGER_CHARACTERS), resolve_provider=True, completion_item=_item_options())


def offer_completion(session: Session) -> None:
    """Tell a client that can be told, if what is wanted has changed. Does not wait for its answer."""
    wanted = is_wanted(session.features, session.settings)
    if session.features.completion.registers and wanted != session.offers_completion:
        session.offers_completion = wanted
        session.telling = asyncio.create_task(_tell(session, wanted))


async def _tell(session: Session, wanted: bool) -> None:
    method = types.TEXT_DOCUMENT_COMPLETION
    try:
        if wanted:
            options = types.CompletionRegistrationOptions(
                trigger_characters=list(TRIGGER_CHARACTERS), resolve_provider=True, completion_item=_item_options()
            )
            params = types.RegistrationParams([types.Registration(ID, method, options)])
            await session.server.client_register_capability_async(params)
        else:
            await session.server.client_unregister_capability_async(
                types.UnregistrationParams([types.Unregistration(ID, method)])
            )
    except Exception as error:  # then it stays as it was
        log.info("the client registers no completion: %s", type(error).__name__)


def _item_options() -> types.ServerCompletionItemOptions:
    return types.ServerCompletionItemOptions(label_details_support=True)
