"""`codeAction/resolve`: carry out the code action and add its edit."""

from collections.abc import Awaitable

import attrs
from lsprotocol import types
from lsprotocol.types import CodeAction

from lsp_server.actions.action import Action
from lsp_server.actions.data import ActionData
from lsp_server.actions.kinds import Cancelled, NotDone
from lsp_server.handlers.action_edit import perform
from lsp_server.lsp.capabilities import FILL_KIND, REPAIR_KIND
from lsp_server.lsp.replies import ReplyError, read_raw
from lsp_server.session import Session


def code_action_resolve(session: Session, action: CodeAction) -> CodeAction | Awaitable[CodeAction]:
    """An action that is not ours comes back as it is: some clients also resolve actions without `data`."""
    if action.data is None or action.edit is not None or not _is_ours(action.kind):
        return action
    data: ActionData = read_raw("params for codeAction/resolve: data", action.data, ActionData)
    snapshot = session.snapshot(data.uri)
    if snapshot is None:
        raise ReplyError(f"cannot fill: {session.why_off(data.uri)}")
    try:
        chosen = data.action(snapshot, session.settings_of(data.uri).marker)
    except NotDone as reason:
        raise ReplyError(str(reason)) from None
    return _resolved(session, action, chosen)


async def _resolved(session: Session, action: CodeAction, chosen: Action) -> CodeAction:
    try:
        edit, _ = await perform(session, chosen, None)
    except Cancelled as cancelled:
        raise ReplyError(str(cancelled), types.LSPErrorCodes.RequestCancelled) from None
    except NotDone as reason:
        raise ReplyError(str(reason)) from None
    return attrs.evolve(action, edit=edit)


def _is_ours(kind: types.CodeActionKind | str | None) -> bool:
    return isinstance(kind, str) and (kind == REPAIR_KIND or kind.startswith(f"{FILL_KIND}."))
