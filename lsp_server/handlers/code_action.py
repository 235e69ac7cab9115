"""`textDocument/codeAction`: lists the possible actions. Asks no model: `codeAction/resolve` or a command does."""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial

import attrs
from lsprotocol import types
from lsprotocol.types import CodeAction, Command

from inference.messages import HoleKind
from lsp_server.actions.action import (
    Action,
    ActionKind,
    Cancelled,
    DiagnosticText,
    NotDone,
    distinct,
    fills,
    refinements,
    repairs,
)
from lsp_server.carve import Span
from lsp_server.documents.document import Snapshot
from lsp_server.documents.positions import Encoding
from lsp_server.documents.tracking import TextRange
from lsp_server.handlers.action_edit import ActionRequest, Done, perform
from lsp_server.handlers.inline_edit import accept_command
from lsp_server.lsp.capabilities import COMMAND_PREFIX, FILL_KIND, PULL_COMMAND, REPAIR_KIND
from lsp_server.lsp.edits import offsets_of, range_of, workspace_edit
from lsp_server.lsp.replies import ReplyError, read_raw
from lsp_server.next_edit.finder import nearest
from lsp_server.next_edit.service import NextEditService
from lsp_server.refine.refining import Refining
from lsp_server.session import Session

NEXT_EDIT_KIND = f"{FILL_KIND}.nextEdit"
DOWNLOAD_KIND = f"{FILL_KIND}.pullModel"
Only = Sequence[types.CodeActionKind | str] | None
"""The kinds a client asks for. Known kinds are lsprotocol enums, which are also strings."""


_Partner = tuple[str, TextRange | None]
"""The title of the partner's action, and the recent fill at the cursor."""


def code_action(
    session: Session, params: types.CodeActionParams, snapshot: Snapshot
) -> list[CodeAction] | Awaitable[list[CodeAction]]:
    if not (_any_wanted(params.context.only) and (session.features.lazy_code_actions or session.features.apply_edit)):
        return []
    return _all_wanted(session, snapshot, params)


async def _all_wanted(session: Session, snapshot: Snapshot, params: types.CodeActionParams) -> list[CodeAction]:
    """Looks in a thread, because a long file may have thousands of holes."""
    only = params.context.only
    encoding = session.features.encoding
    marker = session.settings_of(snapshot.uri).marker  # not in the thread
    place = offsets_of(snapshot.lines, params.range, encoding)
    made = session.feature(Refining).fill_at(snapshot.uri, place[0])
    partner = (session.partner.action_title, made) if session.partner else None
    found = await asyncio.to_thread(_available, snapshot, params, marker, encoding, partner)
    available = [action for action in found if _wanted(only, lsp_kind(action))]
    offered = [_offer(session, snapshot, action, params) for action in distinct(available)]
    return [*offered, *await _next_edit(session, snapshot, place[0], only), *_download(session, params.context)]


def _download(session: Session, context: types.CodeActionContext) -> list[CodeAction]:
    """A button that downloads a real model, for clients without one of their own."""
    unasked = context.trigger_kind == types.CodeActionTriggerKind.Automatic or not _wanted(context.only, DOWNLOAD_KIND)
    if unasked or session.features.plugin or not session.worker.makes_do:
        return []
    worker = session.worker
    command = Command(worker.download, PULL_COMMAND, arguments=[{"model": worker.better}])
    return [CodeAction(worker.download, kind=DOWNLOAD_KIND, command=command)]


async def _next_edit(session: Session, snapshot: Snapshot, cursor: int, only: Only) -> list[CodeAction]:
    """The next place of an edit, for clients that do not show such places themselves."""
    features = session.features
    if features.next_edits or not _wanted(only, NEXT_EDIT_KIND):
        return []
    service = session.feature(NextEditService)
    edit = nearest(await service.known(snapshot, cursor, quick=True), cursor)
    if edit is None:
        if session.edit_model is not None:
            service.look_ahead(snapshot, cursor)
        return []
    offer = service.offer(snapshot.uri, edit)
    change = workspace_edit(snapshot, [Span(edit.start, edit.end, HoleKind.EXPRESSION)], [edit.text], features)
    title = f"Next edit: {edit.why} (line {snapshot.lines.line_of(edit.start) + 1})"
    command = accept_command(snapshot.uri, offer)
    return [CodeAction(title, kind=NEXT_EDIT_KIND, is_preferred=True, edit=change, command=command)]


def lsp_kind(action: Action) -> str:
    """The code action kind in the protocol's sense, to which a user can bind a key."""
    if action.kind is ActionKind.REPAIR:
        return REPAIR_KIND
    return ".".join(filter(None, (FILL_KIND, action.kind.value, action.variant)))


def _available(
    snapshot: Snapshot, params: types.CodeActionParams, marker: str, encoding: Encoding, partner: _Partner | None
) -> list[Action]:
    start, end = offsets_of(snapshot.lines, params.range, encoding)
    diagnostics = [
        DiagnosticText(*offsets_of(snapshot.lines, diagnostic.range, encoding), str(diagnostic.message))
        for diagnostic in params.context.diagnostics
    ]
    automatic = params.context.trigger_kind == types.CodeActionTriggerKind.Automatic
    found = [*repairs(snapshot, marker, diagnostics), *fills(snapshot, marker, start, end, automatic=automatic)]
    return found + (refinements(snapshot, marker, start, end, *partner) if partner else [])


def _offer(session: Session, snapshot: Snapshot, action: Action, params: types.CodeActionParams) -> CodeAction:
    """The argument's `tell` shows the user the outcome of a command, since editors ignore the reply."""
    answered = [] if action.diagnostic is None else [params.context.diagnostics[action.diagnostic]]
    tags = [types.CodeActionTag.LlmGenerated] if session.features.llm_tag else None
    offered = CodeAction(action.title, kind=lsp_kind(action), diagnostics=answered or None, tags=tags)
    range_ = range_of(snapshot.lines, action.start, action.end, session.features.encoding)
    argument = {"uri": snapshot.uri, "version": snapshot.version, "range": range_, "tell": True}
    more = {"strength": action.requested, "instruction": action.instruction}
    argument |= {name: value for name, value in more.items() if value not in (None, "")}
    if session.features.lazy_code_actions:
        offered.data = {**argument, "kind": action.kind.value}
    else:
        offered.command = Command(action.title, f"{COMMAND_PREFIX}{action.kind.value}", arguments=[argument])
    return offered


def _wanted(only: Only, kind: str) -> bool:
    """Whether the client asked for `kind`: kinds are prefixes, `refactor` asks for `refactor.rewrite.infill` too."""
    return only is None or any(wanted in ("", kind) or kind.startswith(wanted + ".") for wanted in only)


def _any_wanted(only: Only) -> bool:
    """Whether the client asked for any of our kinds. If not, as on each save, there is nothing to do."""
    ours = (FILL_KIND, REPAIR_KIND)
    return any(_wanted(only, kind) for kind in ours) or any(wanted.startswith(f"{FILL_KIND}.") for wanted in only or ())


def code_action_resolve(session: Session, action: CodeAction) -> CodeAction | Awaitable[CodeAction]:
    """Returns other servers' actions unchanged: some clients also resolve actions without `data`."""
    if action.data is None or action.edit is not None or not _is_ours(action.kind):
        return action
    asked: ActionRequest = read_raw("params for codeAction/resolve: data", action.data, ActionRequest)
    return perform(session, asked, asked.kind, None, partial(_resolved, action))


async def _resolved(action: CodeAction, performing: Awaitable[Done]) -> CodeAction:
    try:
        return attrs.evolve(action, edit=(await performing).edit)
    except Cancelled as cancelled:
        raise ReplyError(str(cancelled), types.LSPErrorCodes.RequestCancelled) from None
    except NotDone as reason:
        raise ReplyError(str(reason)) from None


def _is_ours(kind: types.CodeActionKind | str | None) -> bool:
    return isinstance(kind, str) and (kind == REPAIR_KIND or kind.startswith(f"{FILL_KIND}."))
