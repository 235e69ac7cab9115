"""`codeAction/resolve`: carry out the code action and add its edit."""

import asyncio
from collections.abc import Awaitable

import attrs
from lsprotocol import types
from lsprotocol.types import CodeAction

from lsp_server.actions.data import ActionData
from lsp_server.actions.kinds import STALE, Cancelled, NotDone
from lsp_server.documents.document import Snapshot
from lsp_server.fill.pipeline import Budget
from lsp_server.handlers.action_edit import perform
from lsp_server.lsp.capabilities import FILL_KIND, REPAIR_KIND
from lsp_server.lsp.replies import ReplyError, read_raw
from lsp_server.session import Session


def code_action_resolve(session: Session, action: CodeAction) -> CodeAction | Awaitable[CodeAction]:
    """An action that is not ours comes back as it is: some clients also resolve actions without `data`."""
    if action.data is None or action.edit is not None or not _is_ours(action.kind):
        return action
    data: ActionData = read_raw("params for codeAction/resolve: data", action.data, ActionData)
    budget = Budget.of(session.settings_of(data.uri), invoked=True)
    return session.when_parsed(data.uri, lambda: _chosen(session, action, data, budget), _stale)


def _stale() -> CodeAction:
    raise ReplyError(STALE)


def _chosen(session: Session, action: CodeAction, data: ActionData, budget: Budget) -> Awaitable[CodeAction]:
    snapshot = session.snapshot(data.uri)
    if snapshot is None:
        raise ReplyError(f"cannot fill: {session.why_off(data.uri)}")
    return _resolved(session, action, data, snapshot, budget)


async def _resolved(
    session: Session, action: CodeAction, data: ActionData, snapshot: Snapshot, budget: Budget
) -> CodeAction:
    try:
        chosen = await asyncio.to_thread(data.action, snapshot, session.settings_of(data.uri).marker)
        edit, _ = await perform(session, chosen, budget, None)
    except Cancelled as cancelled:
        raise ReplyError(str(cancelled), types.LSPErrorCodes.RequestCancelled) from None
    except NotDone as reason:
        raise ReplyError(str(reason)) from None
    return attrs.evolve(action, edit=edit)


def _is_ours(kind: types.CodeActionKind | str | None) -> bool:
    return isinstance(kind, str) and (kind == REPAIR_KIND or kind.startswith(f"{FILL_KIND}."))
