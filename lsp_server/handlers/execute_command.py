"""`workspace/executeCommand`: the commands of editors/README.md. Fills send their edit with `workspace/applyEdit`."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

from lsprotocol import types
from msgspec import Meta, Struct

from inference.models.catalogue import AUTO
from lsp_server.actions.action import Action
from lsp_server.actions.kinds import CANNOT_APPLY, STALE, ActionKind, Cancelled, NotDone, holes_of
from lsp_server.diagnosis.models import NotPulled, pull
from lsp_server.documents.document import Snapshot
from lsp_server.fill.pipeline import Budget
from lsp_server.handlers.action_edit import perform
from lsp_server.handlers.inline_completion import accept
from lsp_server.lsp.capabilities import ACCEPT_COMMAND, COMMAND_PREFIX, PULL_COMMAND, REFINE_SUGGESTION_COMMAND
from lsp_server.lsp.progress import StoppedByUser
from lsp_server.lsp.replies import RawPosition, ReplyError, read_raw
from lsp_server.refine.comparison import NotRefined
from lsp_server.session import Session
from lsp_server.worker import WorkerFailure

CommandAnswer = dict[str, Any]
Handler = Callable[[Session, types.ExecuteCommandParams], CommandAnswer | Awaitable[CommandAnswer]]


class _Range(Struct, frozen=True):
    start: RawPosition
    end: RawPosition


class FillArgument(Struct, frozen=True):
    """The argument of a fill, of that `version` only if given. With `tell`, shows the user why nothing was done."""

    uri: str
    range: _Range
    strength: Annotated[float, Meta(ge=0, le=1)] | None = None
    instruction: str = ""
    version: int | None = None
    tell: bool = False


class PullArgument(Struct, frozen=True):
    """The argument of a download: a model name from the catalogue."""

    model: str


def execute_command(session: Session, params: types.ExecuteCommandParams) -> CommandAnswer | Awaitable[CommandAnswer]:
    handler = COMMANDS.get(params.command)
    if handler is None:
        raise ReplyError(f"no such command: {params.command[:80]}", types.ErrorCodes.InvalidParams)
    return handler(session, params)


def command_answer(*, applied: bool, reason: str | None = None) -> CommandAnswer:
    """The reply to every command."""
    return {"applied": applied, "reason": reason}


def argument(params: types.ExecuteCommandParams, kind: type[Any]) -> Any:
    """The command's first argument as a `kind`. Raises ReplyError, which names the problem."""
    return read_raw(f"argument for {params.command}", next(iter(params.arguments or ()), None), kind)


def _fill(
    kind: ActionKind, session: Session, params: types.ExecuteCommandParams
) -> CommandAnswer | Awaitable[CommandAnswer]:
    """Fills the text as it is on arrival."""
    given: FillArgument = argument(params, FillArgument)
    budget = Budget.of(session.settings_of(given.uri), invoked=True)

    def begin() -> Awaitable[CommandAnswer]:
        return _filled(kind, session, params, given, _snapshot(session, given), budget)

    return session.when_parsed(given.uri, begin, lambda: _answer(session, given, applied=False, reason=STALE))


def _snapshot(session: Session, given: FillArgument) -> Snapshot | NotDone:
    """The text to fill, or the reason why it cannot be filled."""
    if not session.features.apply_edit:
        return NotDone(CANNOT_APPLY)
    snapshot = session.snapshot(given.uri)
    if snapshot is None:
        return NotDone(f"cannot fill: {session.why_off(given.uri)}")
    return snapshot if given.version in (None, snapshot.version) else NotDone(STALE)


def _place(session: Session, kind: ActionKind, given: FillArgument, snapshot: Snapshot) -> tuple[int, int]:
    """The action for the range: for the partner, a recent fill there."""
    ends = (given.range.start, given.range.end)
    start, end = sorted(snapshot.lines.offset(at.line, at.character, session.features.encoding) for at in ends)
    wants_made = kind is ActionKind.REFINE and start == end
    return (session.refining.fill_at(given.uri, start) if wants_made else None) or (start, end)


async def _filled(
    kind: ActionKind,
    session: Session,
    params: types.ExecuteCommandParams,
    given: FillArgument,
    snapshot: Snapshot | NotDone,
    budget: Budget,
) -> CommandAnswer:
    """Looks for the holes in a thread, because a long file may have thousands."""
    try:
        if isinstance(snapshot, NotDone):
            raise snapshot
        marker = session.settings_of(given.uri).marker  # not in the thread, where settings may change
        place = _place(session, kind, given, snapshot)
        holes = await asyncio.to_thread(holes_of, kind, snapshot, marker, *place)
        action = Action(kind, snapshot, holes, given.strength, given.instruction, marker)
        edit, left = await perform(session, action, budget, params.work_done_token)
        applied, reason = await session.editor.apply_edit(edit, f"infill: {action.title}")
        if not applied:
            session.usage.refused(given.uri)
        reason = reason or left
    except Cancelled as cancelled:  # the user already knows
        return command_answer(applied=False, reason=str(cancelled))
    except NotDone as not_done:
        applied, reason = False, str(not_done)
    return _answer(session, given, applied=applied, reason=reason)


def _answer(session: Session, given: FillArgument, *, applied: bool, reason: str | None) -> CommandAnswer:
    if reason and given.tell:
        session.editor.show(reason, types.MessageType.Warning)
    return command_answer(applied=applied, reason=reason)


async def _restart_worker(session: Session) -> CommandAnswer:
    try:
        if session.partner is not None:
            await session.partner.renew()
        await session.worker.restart()
    except WorkerFailure as failure:
        return command_answer(applied=False, reason=str(failure))
    return command_answer(applied=True)


async def _pull_model(session: Session, params: types.ExecuteCommandParams) -> CommandAnswer:
    """Downloads a model of the catalogue at the user's request. If the setting is `auto`, then loads the best model."""
    given: PullArgument = argument(params, PullArgument)
    try:
        await session.editor.progress.run(
            f"downloading {given.model[:80]}",
            partial(pull, given.model),
            token=params.work_done_token,
            may_create=session.features.progress,
        )
    except (NotPulled, StoppedByUser) as problem:
        return command_answer(applied=False, reason=str(problem) or "stopped; ask again to resume where it stopped")
    return await _restart_worker(session) if session.settings.model == AUTO else command_answer(applied=True)


def _did_accept(session: Session, params: types.ExecuteCommandParams) -> CommandAnswer:
    accept(session, *_suggestion_in(params))
    return command_answer(applied=False)


def _suggestion_in(params: types.ExecuteCommandParams) -> tuple[str, str]:
    """The URI of a document and the id of a suggestion, which a command's arguments name the other way round."""
    match params.arguments:
        case [str(suggestion_id), str(uri), *_]:
            return uri, suggestion_id
    message = f"invalid arguments for {params.command}: expected an id and a URI"
    raise ReplyError(message, types.ErrorCodes.InvalidParams)


def _refine_suggestion(
    session: Session, params: types.ExecuteCommandParams
) -> CommandAnswer | Awaitable[CommandAnswer]:
    """Asks the partner about a suggestion."""
    uri, suggestion_id = _suggestion_in(params)
    asking = partial(_suggestion_refined, session, uri, suggestion_id)
    return session.when_parsed(uri, asking, lambda: command_answer(applied=False, reason=STALE))


async def _suggestion_refined(session: Session, uri: str, suggestion_id: str) -> CommandAnswer:
    if reason := session.why_off(uri):
        return command_answer(applied=False, reason=f"cannot fill: {reason}")
    try:
        await session.refining.suggestion(uri, suggestion_id)
    except NotRefined as nothing:
        return command_answer(applied=False, reason=str(nothing))
    except WorkerFailure as failure:
        return command_answer(applied=False, reason=f"the partner cannot be asked: {failure}")
    return command_answer(applied=True)


COMMANDS: dict[str, Handler] = {
    **{f"{COMMAND_PREFIX}{kind.value}": partial(_fill, kind) for kind in ActionKind},
    ACCEPT_COMMAND: _did_accept,
    PULL_COMMAND: _pull_model,
    REFINE_SUGGESTION_COMMAND: _refine_suggestion,
    f"{COMMAND_PREFIX}restartWorker": lambda session, _: _restart_worker(session),
}
"""Every command and its handler. Like any handler, it runs on arrival."""
