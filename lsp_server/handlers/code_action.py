"""`textDocument/codeAction`: what could be done here. No model is asked: the edit is made by `codeAction/resolve`.

A client that cannot resolve gets actions with a command, which applies the edit itself.
"""

from collections.abc import Sequence
from typing import Any

from lsprotocol import types
from lsprotocol.types import CodeAction, Command

from lsp_server.actions.available import AvailableAction, DiagnosticText, distinct, fills, repairs
from lsp_server.actions.data import ActionData
from lsp_server.actions.kinds import ActionKind
from lsp_server.documents.document import Snapshot
from lsp_server.handlers.execute_command import PREFIX
from lsp_server.lsp.capabilities import FILL_KIND, REPAIR_KIND
from lsp_server.session import Session

Only = Sequence[types.CodeActionKind | str] | None
"""The kinds that a client asks for; the known ones are enums, which are strings too."""


def code_action(session: Session, params: types.CodeActionParams) -> list[CodeAction | Command]:
    only = params.context.only
    if not (_any_wanted(only) and (session.features.lazy_code_actions or session.features.apply_edit)):
        return []
    snapshot = session.snapshot(params.text_document.uri)
    if snapshot is None:
        return []
    offers = [offer for offer in _offers(session, snapshot, params) if _wanted(only, kind_of(offer))]
    return [_action(session, snapshot, offer, params) for offer in distinct(offers)]


def kind_of(offer: AvailableAction) -> str:
    """The kind of code action that an offer is: a key can be bound to it."""
    if offer.task is ActionKind.REPAIR:
        return REPAIR_KIND
    return ".".join(filter(None, (FILL_KIND, offer.task.value, offer.way)))


def _offers(session: Session, snapshot: Snapshot, params: types.CodeActionParams) -> list[AvailableAction]:
    marker = session.settings_of(snapshot.uri).marker
    start, end = _offsets(session, snapshot, params.range)
    complaints = [
        DiagnosticText(*_offsets(session, snapshot, diagnostic.range), str(diagnostic.message))
        for diagnostic in params.context.diagnostics
    ]
    unasked = params.context.trigger_kind == types.CodeActionTriggerKind.Automatic
    return [*repairs(snapshot, marker, complaints), *fills(snapshot, marker, start, end, unasked=unasked)]


def _offsets(session: Session, snapshot: Snapshot, range_: types.Range) -> tuple[int, int]:
    encoding = session.features.encoding
    ends = (snapshot.lines.offset(at.line, at.character, encoding) for at in (range_.start, range_.end))
    first, last = sorted(ends)
    return first, last


def _action(
    session: Session, snapshot: Snapshot, offer: AvailableAction, params: types.CodeActionParams
) -> CodeAction | Command:
    about = [] if offer.about is None else [params.context.diagnostics[offer.about]]
    action = CodeAction(offer.title, kind=kind_of(offer), diagnostics=about or None)
    if session.features.lazy_code_actions:
        action.data = ActionData.of(offer, snapshot).as_data()
        return action
    range_ = about[0].range if about else params.range
    command = Command(offer.title, f"{PREFIX}{offer.task.value}", arguments=[_argument(snapshot, offer, range_)])
    action.command = command
    return action if session.features.code_action_literals else command


def _argument(snapshot: Snapshot, offer: AvailableAction, range_: types.Range) -> dict[str, Any]:
    """What the command is told. Its answer is seen by nobody, so it is to `tell` why it did nothing."""
    argument = {"uri": snapshot.uri, "version": snapshot.version, "range": range_, "tell": True}
    more = {"strength": offer.strength, "instruction": offer.instruction}
    return {**argument, **{name: value for name, value in more.items() if value not in (1.0, "")}}


def _wanted(only: Only, kind: str) -> bool:
    """Whether the client asked for `kind`: kinds are prefixes, `refactor` asks for `refactor.rewrite.infill` too."""
    return only is None or any(wanted in ("", kind) or kind.startswith(wanted + ".") for wanted in only)


def _any_wanted(only: Only) -> bool:
    """Whether the client asked for any kind of ours, to do nothing where it did not, as on each save."""
    ours = (FILL_KIND, REPAIR_KIND)
    return any(_wanted(only, kind) for kind in ours) or any(wanted.startswith(f"{FILL_KIND}.") for wanted in only or ())
