"""Carries out an action: shows progress, and returns an edit if the text has not changed since."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Annotated, TypeVar

from lsprotocol import types
from msgspec import Meta, Struct

from inference.messages import Draft
from lsp_server.actions.action import STALE, Action, ActionKind, Cancelled, NotDone, holes_of
from lsp_server.documents.document import Snapshot
from lsp_server.fill.candidates import current_texts
from lsp_server.fill.drafts import DraftProgress, DraftReader
from lsp_server.fill.feature import Asked, Shown
from lsp_server.fill.pipeline import Budget, FillOptions, left_as_they_are
from lsp_server.lsp.draft_notifications import DraftSender
from lsp_server.lsp.edits import workspace_edit
from lsp_server.lsp.progress import Report, StoppedByUser
from lsp_server.lsp.replies import RawPosition
from lsp_server.refine.refining import NO_PARTNER, Refining
from lsp_server.session import Session
from lsp_server.worker import OnDraft, WorkerFailure

_numbers = count(1)
_T = TypeVar("_T")


class RawRange(Struct, frozen=True):
    """A range in raw JSON."""

    start: RawPosition
    end: RawPosition


class ActionRequest(Struct, frozen=True):
    """An action for a range, of that `version` of the document only if given. With `tell`, shows the user why nothing
    was done. It is the argument of the action's command, and with its kind the `data` of its code action.
    """

    uri: str
    range: RawRange
    strength: Annotated[float, Meta(ge=0, le=1)] | None = None
    instruction: str = ""
    version: int | None = None
    tell: bool = False
    kind: ActionKind = ActionKind.FILL_HOLE


@dataclass(frozen=True)
class Done:
    """The edit of an action, what it did, the id of its answer, and a message about unfilled holes, if any."""

    edit: types.WorkspaceEdit
    activity: str
    id: str
    left: str | None


def perform(
    session: Session,
    asked: ActionRequest,
    kind: ActionKind,
    token: types.ProgressToken | None,
    reply: Callable[[Awaitable[Done]], Awaitable[_T]],
) -> Awaitable[_T]:
    """What `reply` makes of an action on the text as it is now. Shows progress under `token`. Raises NotDone."""
    budget = Budget.of(session.settings_of(asked.uri), invoked=True)
    replied: Awaitable[_T] = session.with_document(
        asked.uri,
        lambda snapshot: reply(_performed(session, asked, kind, snapshot, budget=budget, token=token)),
        lambda why: reply(_refused(f"cannot fill: {why}" if why else STALE)),
        parsed=True,
    )
    return replied


async def _refused(why: str) -> Done:
    raise NotDone(why)


async def _performed(
    session: Session,
    asked: ActionRequest,
    kind: ActionKind,
    snapshot: Snapshot,
    *,
    budget: Budget,
    token: types.ProgressToken | None,
) -> Done:
    """Looks for the holes in a thread, because a long file may have thousands."""
    if asked.version not in (None, snapshot.version):
        raise NotDone(STALE)
    uri = snapshot.uri
    encoding = session.features.encoding
    marker = session.settings_of(uri).marker
    ends = (asked.range.start, asked.range.end)
    start, end = sorted(snapshot.lines.offset(at.line, at.character, encoding) for at in ends)
    if kind is ActionKind.REFINE and start == end and (made := session.feature(Refining).fill_at(uri, start)):
        start = made.start
        end = made.end
    holes = await asyncio.to_thread(holes_of, kind, snapshot, marker, start, end)
    action = Action(kind, start, end, holes, asked.strength, asked.instruction)
    session.mark_used(uri)
    try:
        texts, took_ms = await session.editor.progress.run(
            action.activity,
            lambda report: _texts(
                session, action, snapshot, budget, _on_draft(session, action, snapshot, token, report)
            ),
            token=token,
            may_create=session.features.progress,
        )
    except StoppedByUser:
        raise Cancelled from None
    except WorkerFailure as failure:
        raise NotDone(f"cannot fill: {failure}") from failure
    if not session.is_current(snapshot):
        raise NotDone(STALE)
    done_id = f"action-{next(_numbers)}"
    options = FillOptions(action.strength, action.instruction)
    is_refined = kind is ActionKind.REFINE
    sampled = None if is_refined else Asked(snapshot, holes, texts, budget, marker, took_ms=took_ms, options=options)
    waited_ms = (time.monotonic() - budget.began_s) * 1000
    session.broadcast.shown(uri, Shown(done_id, "action", waited_ms, sampled))
    session.feature(Refining).expect(done_id, snapshot, holes, texts, is_refined=is_refined)
    edit = workspace_edit(snapshot, holes, texts, session.features)
    return Done(edit, action.activity, done_id, left_as_they_are(texts, current_texts(snapshot, holes)))


async def _texts(
    session: Session, action: Action, snapshot: Snapshot, budget: Budget, on_draft: OnDraft | None
) -> tuple[tuple[str, ...], float]:
    """The texts for the holes, and how long the model took, in ms. Raises NotDone, WorkerFailure."""
    is_refined = action.kind is ActionKind.REFINE
    connection = session.partner_connection if is_refined else session.worker
    if connection is None:
        raise NotDone(NO_PARTNER)
    worker = await connection.loaded(budget.deadline)
    context = await session.context_for(snapshot, action.holes[0].start, worker.last_status)
    if context is None:
        raise NotDone(f"cannot fill: {await session.why_off_now(snapshot.uri)}")
    sent_s = time.monotonic()
    found = await action.filled(
        worker,
        snapshot,
        budget.from_now() if is_refined else budget,  # measured by the partner
        marker=session.settings_of(snapshot.uri).marker,
        on_draft=on_draft,
        context=context,
    )
    return found.texts, (time.monotonic() - sent_s) * 1000


def _on_draft(
    session: Session, action: Action, snapshot: Snapshot, token: types.ProgressToken | None, report: Report
) -> OnDraft | None:
    """The callback for each draft; None if nobody would see drafts."""
    features = session.features
    if token is None and not (features.progress or features.drafts):
        return None
    progress = DraftProgress()
    reader = DraftReader(snapshot, action.holes)
    drafts = DraftSender(session.editor.notify, kind="action", encoding=features.encoding, token=token)

    def on_draft(draft: Draft) -> None:
        report(*progress.after(draft))
        if features.drafts:
            drafts.send(draft, snapshot if session.is_current(snapshot) else None, lambda: reader.read(draft))

    return on_draft
