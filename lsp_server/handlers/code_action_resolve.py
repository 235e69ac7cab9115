"""`codeAction/resolve`: fill the holes of one code action together and give it its edit."""

from collections.abc import Awaitable, Sequence
from typing import Any

import attrs
import msgspec
from lsprotocol import types
from lsprotocol.types import CodeAction

from lsp_server import carve
from lsp_server.capabilities import FILL_KIND
from lsp_server.document import Snapshot
from lsp_server.edits import workspace_edit
from lsp_server.filling import Effort, fill
from lsp_server.reply import RequestError
from lsp_server.session import Session
from lsp_server.worker import WorkerFailure

_STALE = "the file has changed since this action was offered; ask for the code actions again"
_NOTHING = "the model found nothing that fits here"
_TOO_LATE = "no answer within {} ms; try again, or raise deadlineMs.invoked"


class FillOrder(msgspec.Struct, frozen=True):
    """What a code action remembers until it is chosen: which holes of which text. `holes` are `str` indices."""

    uri: str
    version: int
    holes: list[tuple[int, int]]

    def as_data(self) -> dict[str, Any]:
        """As the `data` of a code action."""
        return msgspec.structs.asdict(self)


def code_action_resolve(session: Session, action: CodeAction) -> CodeAction | Awaitable[CodeAction]:
    """An action that is not ours to fill comes back as it is: some clients also resolve what has no `data`."""
    if action.data is None or action.edit is not None or action.kind != FILL_KIND:
        return action
    order = _order(action.data)
    snapshot = session.snapshot(order.uri)
    if snapshot is None:
        raise RequestError(f"cannot fill: {session.why_off(order.uri)}")
    found = {(span.start, span.end): span for span in carve.markers(snapshot, session.settings.marker)}
    if snapshot.version != order.version or not all(hole in found for hole in order.holes):
        raise RequestError(_STALE)
    return _filled(session, action, snapshot, [found[hole] for hole in order.holes])


async def _filled(session: Session, action: CodeAction, snapshot: Snapshot, spans: Sequence[carve.Span]) -> CodeAction:
    effort = Effort.of(session.settings, invoked=True)
    try:
        filled = await fill(await session.resident.loaded(), snapshot, spans, effort)
    except WorkerFailure as failure:
        raise RequestError(f"cannot fill: {failure}") from failure
    if not session.is_current(snapshot):
        raise RequestError(_STALE)
    if not filled.answers:
        raise RequestError(_TOO_LATE.format(effort.deadline_ms) if filled.late else _NOTHING)
    return attrs.evolve(action, edit=workspace_edit(snapshot, spans, filled.answers[0], session.features))


def _order(data: Any) -> FillOrder:
    try:
        return msgspec.convert(data, FillOrder)
    except msgspec.ValidationError:
        raise RequestError("invalid params for codeAction/resolve: data", types.ErrorCodes.InvalidParams) from None
