"""`workspace/executeCommand`: the commands of editors/README.md. Fills send their edit with `workspace/applyEdit`."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from lsprotocol import types
from msgspec import Struct

from inference.models.catalogue import AUTO
from lsp_server.actions import CANNOT_APPLY_MESSAGE, ActionCancelledError, ActionKind, ActionNotDoneError
from lsp_server.diagnosis.models import NotPulledError, pull
from lsp_server.handlers.code_action import ActionRequest, perform_action
from lsp_server.handlers.inline_completion import accept_suggestion
from lsp_server.lsp.capabilities import ACCEPT_COMMAND, COMMAND_PREFIX, PULL_COMMAND, REFINE_SUGGESTION_COMMAND
from lsp_server.lsp.editor_connection import StoppedByUser
from lsp_server.lsp.protocol import ReplyError, decode_raw
from lsp_server.refine.refiner import NotRefinedError, PartnerRefiner
from lsp_server.session import Session
from lsp_server.worker import WorkerError

RESTART_COMMAND = f"{COMMAND_PREFIX}restartWorker"
REFINED_NOTIFICATION = "infill/refined"
"""Notifies the client that the partner has improved a suggestion."""
CommandAnswer = dict[str, Any]
Handler = Callable[[Session, types.ExecuteCommandParams], CommandAnswer | Awaitable[CommandAnswer]]


class PullArgument(Struct, frozen=True):
    model: str


def execute_command(session: Session, params: types.ExecuteCommandParams) -> CommandAnswer | Awaitable[CommandAnswer]:
    handler = COMMANDS.get(params.command)
    if handler is None:
        raise ReplyError(f"no such command: {params.command[:80]}", types.ErrorCodes.InvalidParams)
    return handler(session, params)


def build_answer(*, applied: bool, reason: str | None = None) -> CommandAnswer:
    return {"applied": applied, "reason": reason}


def decode_argument(params: types.ExecuteCommandParams, kind: type[Any]) -> Any:
    """The command's first argument as a `kind`. Raises ReplyError, which names the problem."""
    return decode_raw(f"argument for {params.command}", next(iter(params.arguments or ()), None), kind)


async def _fill(kind: ActionKind, session: Session, params: types.ExecuteCommandParams) -> CommandAnswer:
    request: ActionRequest = decode_argument(params, ActionRequest)
    if not session.client_capabilities.apply_edit:
        return _answer(session, request, applied=False, reason=CANNOT_APPLY_MESSAGE)
    try:
        result = await perform_action(session, request, kind, params.work_done_token)
        applied, reason = await session.editor.apply_edit(result.edit, f"infill: {result.activity}")
    except ActionCancelledError as cancelled:  # the user already knows
        return build_answer(applied=False, reason=str(cancelled))
    except ActionNotDoneError as not_done:
        return _answer(session, request, applied=False, reason=str(not_done))
    if not applied:
        session.features.rejected(request.uri, result.id)
    return _answer(session, request, applied=applied, reason=reason or result.unfilled_message)


def _answer(session: Session, request: ActionRequest, *, applied: bool, reason: str | None) -> CommandAnswer:
    if reason and request.tell:
        session.editor.show(reason, types.MessageType.Warning)
    return build_answer(applied=applied, reason=reason)


async def _restart_worker(session: Session) -> CommandAnswer:
    try:
        if session.partner is not None:
            await session.partner.restart(load=False)  # its next worker reads the token again
        other_clients = await session.worker.restart()
    except WorkerError as failure:
        return build_answer(applied=False, reason=str(failure))
    if not other_clients:
        return build_answer(applied=True)
    reason = f"other clients that used the worker ({other_clients}) get the new one with their next request"
    session.editor.show(reason, types.MessageType.Info)
    return build_answer(applied=True, reason=reason)


async def _pull_model(session: Session, params: types.ExecuteCommandParams) -> CommandAnswer:
    """Downloads a model of the catalogue. If the model setting is `auto`, then loads the best model."""
    request: PullArgument = decode_argument(params, PullArgument)
    try:
        await session.editor.run_with_progress(
            f"downloading {request.model[:80]}",
            partial(pull, request.model),
            token=params.work_done_token,
            may_create=session.client_capabilities.progress,
        )
    except (NotPulledError, StoppedByUser) as problem:
        return build_answer(applied=False, reason=str(problem) or "stopped; run it again to resume the download")
    try:
        if session.settings.model == AUTO:
            await session.worker.client.choose_again()
    except WorkerError:  # the worker had no model yet
        return await _restart_worker(session)
    return build_answer(applied=True)


def _did_accept(session: Session, params: types.ExecuteCommandParams) -> CommandAnswer:
    accept_suggestion(session, *_suggestion_in(params))
    return build_answer(applied=False)


def _suggestion_in(params: types.ExecuteCommandParams) -> tuple[str, str]:
    """The document's URI and the suggestion's id. A command's arguments have them in the opposite order."""
    match params.arguments:
        case [str(suggestion_id), str(uri), *_]:
            return uri, suggestion_id
    message = f"invalid arguments for {params.command}: expected an id and a URI"
    raise ReplyError(message, types.ErrorCodes.InvalidParams)


async def _refine_suggestion(session: Session, params: types.ExecuteCommandParams) -> CommandAnswer:
    uri, suggestion_id = _suggestion_in(params)
    if reason := session.disabled_reason(uri):
        return build_answer(applied=False, reason=f"cannot fill: {reason}")
    try:
        await session.feature(PartnerRefiner).refine_suggestion(uri, suggestion_id)
    except NotRefinedError as nothing:
        return build_answer(applied=False, reason=str(nothing))
    except WorkerError as failure:
        return build_answer(applied=False, reason=f"the partner did not answer: {failure}")
    session.editor.notify(REFINED_NOTIFICATION, {"uri": uri, "id": suggestion_id})
    return build_answer(applied=True)


COMMANDS: dict[str, Handler] = {
    **{f"{COMMAND_PREFIX}{kind.value}": partial(_fill, kind) for kind in ActionKind},
    ACCEPT_COMMAND: _did_accept,
    PULL_COMMAND: _pull_model,
    REFINE_SUGGESTION_COMMAND: _refine_suggestion,
    RESTART_COMMAND: lambda session, _: _restart_worker(session),
}
"""Every command and its handler, which is called on arrival, like that of any method."""
