"""`workspace/configuration`, which we ask of the client: its settings, for each workspace folder and for none."""

import logging

from lsprotocol import types

from lsp_server.handlers.completion_offer import offer_completion
from lsp_server.session import Session

SECTIONS = ("infill-ls", "infill")
"""Under which of its settings an editor may keep ours; the first one that is there counts."""
log = logging.getLogger(__name__)


async def pull(session: Session) -> None:
    """Ask for the settings and use them. What the client does not answer, or has nothing for, stays as it was."""
    session.configuration_round += 1
    this_round = session.configuration_round
    folders = [None, *(folder.uri for folder in session.configuration.folders)]
    items = [types.ConfigurationItem(scope_uri=folder, section=section) for folder in folders for section in SECTIONS]
    try:
        found = await session.server.workspace_configuration_async(types.ConfigurationParams(items=items))
    except Exception as error:  # the client would not; what it has sent before stays
        log.info("no configuration: %s", type(error).__name__)
        return
    if this_round != session.configuration_round:  # asked again since then
        return
    for number, folder in enumerate(folders):
        answers = found[number * len(SECTIONS) : (number + 1) * len(SECTIONS)]
        raw = next((answer for answer in answers if answer is not None), None)
        if (
            raw is not None or folder is not None
        ):  # what was sent without being asked for stays where there is no answer
            session.configuration.take_sent(raw, folder)
    session.show_problems()
    offer_completion(session)
