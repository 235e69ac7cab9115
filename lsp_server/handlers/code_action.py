"""`textDocument/codeAction` lists the possible actions without a model; `codeAction/resolve` or a command runs one."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Annotated

import attrs
from lsprotocol import types
from lsprotocol.types import CodeAction, Command
from msgspec import Meta, Struct

from inference.messages import Draft, HoleKind
from lsp_server.actions import (
    STALE_MESSAGE,
    Action,
    ActionCancelledError,
    ActionKind,
    ActionNotDoneError,
    distinct_actions,
    fill_actions,
    holes_for,
    repair_actions,
)
from lsp_server.documents.document import Document, Snapshot
from lsp_server.documents.positions import Encoding
from lsp_server.features import ShownEvent
from lsp_server.fill.drafts import DraftReader, describe_progress
from lsp_server.fill.pipeline import FillBudget, unfilled_message
from lsp_server.fill.postprocess import current_hole_texts
from lsp_server.handlers.inline_edit import accept_command
from lsp_server.holes import HoleSpan
from lsp_server.inline.read_ahead import ReadAheadPrefill
from lsp_server.lsp.capabilities import (
    COMMAND_PREFIX,
    FILL_KIND,
    PULL_COMMAND,
    REPAIR_KIND,
    lsp_range,
    offsets_of,
    workspace_edit,
)
from lsp_server.lsp.draft_notifications import DraftSender
from lsp_server.lsp.editor_connection import Report, StoppedByUser
from lsp_server.lsp.protocol import RawRange, ReplyError, decode_raw
from lsp_server.next_edit.edits import nearest_edit
from lsp_server.next_edit.service import NextEditService
from lsp_server.refine.refiner import NO_PARTNER_MESSAGE, PartnerRefiner
from lsp_server.session import Session
from lsp_server.worker import OnDraft, WorkerError

_numbers = count(1)


class ActionRequest(Struct, frozen=True):
    """The argument of an action's command and, with `kind`, the `data` of its code action. Refused if the document no
    longer has the `version`, if that is given. `tell`: show the user why nothing was done.
    """

    uri: str
    range: RawRange
    strength: Annotated[float, Meta(ge=0, le=1)] | None = None
    instruction: str = ""
    version: int | None = None
    tell: bool = False
    kind: ActionKind = ActionKind.FILL_HOLE


@dataclass(frozen=True)
class ActionResult:
    """The edit of an action, what it did, the id of its answer, and a message about unfilled holes, if any."""

    edit: types.WorkspaceEdit
    activity: str
    id: str
    unfilled_message: str | None


async def perform_action(
    session: Session, request: ActionRequest, kind: ActionKind, token: types.ProgressToken | None
) -> ActionResult:
    """Carries out an action on the text as it is now. Shows progress under `token`. Raises ActionNotDoneError."""
    uri = request.uri
    if reason := session.disabled_reason(uri):
        raise ActionNotDoneError(f"cannot fill: {reason}")
    settings = session.settings_of(uri)
    budget = FillBudget.from_settings(settings, invoked=True)
    snapshot = await session.parsed_snapshot(session.documents[uri])
    if snapshot is None or request.version not in (None, snapshot.version):
        raise ActionNotDoneError(STALE_MESSAGE)
    start, end = offsets_of(snapshot.lines, request.range, session.client_capabilities.encoding)
    holes = await asyncio.to_thread(holes_for, kind, snapshot, settings.marker, start, end)  # there may be thousands
    action = Action(kind, start, end, holes, request.strength, request.instruction)
    session.mark_recently_used(uri)
    try:
        texts = await session.editor.run_with_progress(
            action.activity,
            lambda report: _texts(
                session, action, snapshot, budget, _draft_callback(session, action, snapshot, token, report)
            ),
            token=token,
            may_create=session.client_capabilities.progress,
        )
    except StoppedByUser:
        raise ActionCancelledError from None
    except WorkerError as failure:
        raise ActionNotDoneError(f"cannot fill: {failure}") from failure
    if not session.is_current(snapshot):
        raise ActionNotDoneError(STALE_MESSAGE)
    action_id = f"action-{next(_numbers)}"
    session.features.shown(uri, ShownEvent(action_id, "action", budget.deadline.elapsed_ms))
    session.feature(PartnerRefiner).expect_edit(action_id, snapshot, holes, texts)
    edit = workspace_edit(snapshot, holes, texts, session.client_capabilities)
    return ActionResult(edit, action.activity, action_id, unfilled_message(texts, current_hole_texts(snapshot, holes)))


async def _texts(
    session: Session, action: Action, snapshot: Snapshot, budget: FillBudget, on_draft: OnDraft | None
) -> tuple[str, ...]:
    """The texts for the holes. Raises ActionNotDoneError, WorkerError."""
    is_refined = action.kind is ActionKind.REFINE
    connection = session.partner_connection if is_refined else session.worker
    if connection is None:
        raise ActionNotDoneError(NO_PARTNER_MESSAGE)
    worker = connection.client
    await worker.load(budget.deadline)
    context = await session.context_for(snapshot, action.holes[0].start, worker.last_status)
    if context is None:
        raise ActionNotDoneError(f"cannot fill: {await session.fresh_disabled_reason(snapshot.uri)}")
    result = await action.fill(
        worker,
        snapshot,
        budget.restarted() if is_refined else budget,  # the partner's time starts now
        marker=session.settings_of(snapshot.uri).marker,
        on_draft=on_draft,
        context=context,
    )
    return result.texts


def _draft_callback(
    session: Session, action: Action, snapshot: Snapshot, token: types.ProgressToken | None, report: Report
) -> OnDraft | None:
    """The callback for each draft; None if nobody would see drafts."""
    capabilities = session.client_capabilities
    if token is None and not (capabilities.progress or capabilities.drafts):
        return None
    reader = DraftReader(snapshot, action.holes)
    drafts = DraftSender(session.editor.notify, kind="action", encoding=capabilities.encoding, token=token)

    def on_draft(draft: Draft) -> None:
        report(*describe_progress(draft))
        if capabilities.drafts:
            drafts.send(draft, snapshot if session.is_current(snapshot) else None, lambda: reader.read_holes(draft))

    return on_draft


NEXT_EDIT_KIND = f"{FILL_KIND}.nextEdit"
DOWNLOAD_KIND = f"{FILL_KIND}.pullModel"
RequestedKinds = Sequence[types.CodeActionKind | str] | None
"""The kinds a client asks for. Known kinds are lsprotocol enums, which are also strings."""


async def code_action(session: Session, params: types.CodeActionParams, document: Document) -> list[CodeAction]:
    """Lists the code actions. Looks for holes in a thread, because a long file may have thousands."""
    only = params.context.only
    if not (
        _requests_ours(only)
        and (session.client_capabilities.lazy_code_actions or session.client_capabilities.apply_edit)
    ):
        return []
    marker = session.settings_of(document.uri).marker  # not in the thread
    snapshot = await session.parsed_snapshot(document)
    if snapshot is None:
        return []
    encoding = session.client_capabilities.encoding
    partner = session.partner.action_title if session.partner else ""
    available = await asyncio.to_thread(_actions_for, snapshot, params, marker, encoding, partner)
    code_actions = [_to_code_action(session, snapshot, action, params) for action in available]
    cursor, _ = offsets_of(snapshot.lines, params.range, encoding)
    if not session.client_capabilities.is_own_plugin:  # our plugins send where the cursor rests
        session.feature(ReadAheadPrefill).cursor_rested(document, cursor)
    next_edit = await _next_edit(session, document, snapshot, cursor, only)
    return [*code_actions, *next_edit, *_download(session, params.context)]


def _download(session: Session, context: types.CodeActionContext) -> list[CodeAction]:
    """An action that downloads a better model, for clients without a button for it."""
    worker = session.worker
    is_automatic = context.trigger_kind == types.CodeActionTriggerKind.Automatic
    if is_automatic or session.client_capabilities.is_own_plugin or not worker.client.better_model:
        return []
    if not _requests(context.only, DOWNLOAD_KIND):
        return []
    command = Command(worker.download_title, PULL_COMMAND, arguments=[{"model": worker.client.better_model}])
    return [CodeAction(worker.download_title, kind=DOWNLOAD_KIND, command=command)]


async def _next_edit(
    session: Session, document: Document, snapshot: Snapshot, cursor: int, only: RequestedKinds
) -> list[CodeAction]:
    """The next edit, for clients that show none in the text. One that needs a model comes with a later request."""
    capabilities = session.client_capabilities
    if capabilities.next_edits or not _requests(only, NEXT_EDIT_KIND):
        return []
    service = session.feature(NextEditService)
    edit = nearest_edit(await service.following_edits(snapshot, cursor, by_rules=True), cursor)
    if edit is None:
        service.search_in_background(document, cursor)
        return []
    offer = service.offer_for(snapshot.uri, edit)
    change = workspace_edit(snapshot, [HoleSpan(edit.start, edit.end, HoleKind.EXPRESSION)], [edit.text], capabilities)
    title = f"Next edit: {edit.why} (line {snapshot.lines.line_of(edit.start) + 1})"
    command = accept_command(snapshot.uri, offer)
    return [CodeAction(title, kind=NEXT_EDIT_KIND, is_preferred=True, edit=change, command=command)]


def code_action_kind(action: Action) -> str:
    """The LSP code action kind, to which a user can bind a key."""
    if action.kind is ActionKind.REPAIR:
        return REPAIR_KIND
    return ".".join(filter(None, (FILL_KIND, action.kind.value, action.variant)))


def _actions_for(
    snapshot: Snapshot, params: types.CodeActionParams, marker: str, encoding: Encoding, partner: str
) -> list[Action]:
    start, end = offsets_of(snapshot.lines, params.range, encoding)
    diagnostics = [
        (*offsets_of(snapshot.lines, diagnostic.range, encoding), str(diagnostic.message))
        for diagnostic in params.context.diagnostics
    ]
    automatic = params.context.trigger_kind == types.CodeActionTriggerKind.Automatic
    actions = [
        *repair_actions(snapshot, marker, diagnostics),
        *fill_actions(snapshot, marker, start, end, automatic=automatic, refine_title=partner),
    ]
    return distinct_actions([action for action in actions if _requests(params.context.only, code_action_kind(action))])


def _to_code_action(session: Session, snapshot: Snapshot, action: Action, params: types.CodeActionParams) -> CodeAction:
    """Converts an action. Its argument has `tell`, since editors do not show a command's reply."""
    diagnostics = [] if action.diagnostic is None else [params.context.diagnostics[action.diagnostic]]
    tags = [types.CodeActionTag.LlmGenerated] if session.client_capabilities.llm_tag else None
    code_action = CodeAction(action.title, kind=code_action_kind(action), diagnostics=diagnostics or None, tags=tags)
    range_ = lsp_range(snapshot.lines, action.start, action.end, session.client_capabilities.encoding)
    argument = {"uri": snapshot.uri, "version": snapshot.version, "range": range_, "tell": True}
    options = {"strength": action.requested_strength, "instruction": action.instruction}
    argument |= {name: value for name, value in options.items() if value not in (None, "")}
    if session.client_capabilities.lazy_code_actions:
        code_action.data = {**argument, "kind": action.kind.value}
    else:
        code_action.command = Command(action.title, f"{COMMAND_PREFIX}{action.kind.value}", arguments=[argument])
    return code_action


def _requests(only: RequestedKinds, kind: str) -> bool:
    """Whether the client asked for `kind`: kinds are prefixes, `refactor` asks for `refactor.rewrite.infill` too."""
    return only is None or any(requested in ("", kind) or kind.startswith(requested + ".") for requested in only)


def _requests_ours(only: RequestedKinds) -> bool:
    """Whether the client asked for any of our kinds, which it does not do on each save."""
    is_ours = any(kind.startswith(f"{FILL_KIND}.") for kind in only or ())
    return is_ours or _requests(only, FILL_KIND) or _requests(only, REPAIR_KIND)


async def code_action_resolve(session: Session, action: CodeAction) -> CodeAction:
    """Returns other servers' actions unchanged: some clients also resolve actions without `data`."""
    if action.data is None or action.edit is not None or not _requests((FILL_KIND, REPAIR_KIND), action.kind or ""):
        return action
    request: ActionRequest = decode_raw("params for codeAction/resolve: data", action.data, ActionRequest)
    try:
        return attrs.evolve(action, edit=(await perform_action(session, request, request.kind, None)).edit)
    except ActionCancelledError as cancelled:
        raise ReplyError(str(cancelled), types.LSPErrorCodes.RequestCancelled) from None
    except ActionNotDoneError as reason:
        raise ReplyError(str(reason)) from None
