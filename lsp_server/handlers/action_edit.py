"""Carries out an action: shows progress, and returns an edit if the text has not changed since."""

import time

from lsprotocol import types

from inference.messages import Candidate, Draft
from lsp_server.actions.action import Action
from lsp_server.actions.kinds import STALE, ActionKind, Cancelled, NotDone, strength_of
from lsp_server.documents.tracking import TextRange
from lsp_server.fill.candidates import current_texts
from lsp_server.fill.drafts import DraftProgress, DraftReader
from lsp_server.fill.pipeline import Budget, FillOptions, left_as_they_are
from lsp_server.lsp.draft_notifications import DraftSender
from lsp_server.lsp.edits import workspace_edit
from lsp_server.lsp.progress import Report, StoppedByUser
from lsp_server.lsp.worker_connection import WorkerConnection
from lsp_server.refine.refining import NO_PARTNER
from lsp_server.session import Session
from lsp_server.shadow.other_model import AnsweredRequest
from lsp_server.usage.document_usage import Timing
from lsp_server.worker import WorkerFailure, alive
from lsp_server.worker.exchange import OnDraft


async def perform(
    session: Session, action: Action, budget: Budget, token: types.ProgressToken | None
) -> tuple[types.WorkspaceEdit, str | None]:
    """The edit of `action`, and a message about unfilled holes. Shows progress under `token`. Raises NotDone."""
    session.mark_used(action.snapshot.uri)
    with session.shadow.held():
        asked = _Asking(session, action, budget, token)
        found = await asked.answer()
        if not session.is_current(action.snapshot):
            raise NotDone(STALE)
        session.record.filled(asked.answered(found.texts), asked.timing, found.confidence, is_refined=asked.is_refined)
    edit = workspace_edit(action.snapshot, action.holes, found.texts, session.features)
    return edit, left_as_they_are(found.texts, current_texts(action.snapshot, action.holes))


class _Asking:
    """One action in progress, the model asked to carry it out, and the time of the request."""

    def __init__(self, session: Session, action: Action, budget: Budget, token: types.ProgressToken | None) -> None:
        self._session, self._action, self._budget, self._token = session, action, budget, token
        self._places = [TextRange(hole.start, hole.end) for hole in action.holes]
        self._began_s = self._sent_s = budget.began_s
        self._drafted_s: list[float] = []
        self.is_refined = action.kind is ActionKind.REFINE

    async def answer(self) -> Candidate:
        """The texts for the holes. Raises NotDone."""
        session, action = self._session, self._action
        if self.is_refined and session.is_current(action.snapshot):  # already asks the other model
            session.shadow.leave_out(action.snapshot.uri, places=self._places)
        try:
            return await session.editor.progress.run(
                action.title, self._ask, token=self._token, may_create=session.features.progress
            )
        except StoppedByUser:
            raise Cancelled from None
        except WorkerFailure as failure:
            raise NotDone(f"cannot fill: {failure}") from failure

    async def _ask(self, report: Report) -> Candidate:
        session, action = self._session, self._action
        wants_ready = self.is_refined and not action.instruction
        if wants_ready and (ready := session.refining.ready(action.snapshot, action.holes)):
            return Candidate("", ready)
        connection, budget = _connection(session, action), self._budget
        with connection.asked():
            worker = await alive.in_time(connection.client, connection.loaded(), budget.left_ms, budget.deadline_ms)
        if reason := await session.why_off_now(action.snapshot.uri):
            raise NotDone(f"cannot fill: {reason}")
        session.shadow.asked()
        at = action.holes[0].start if action.holes else 0
        context = await session.context_for(action.snapshot, at, worker.last_status)
        on_draft = self._on_draft(report)
        self._sent_s = time.monotonic()
        budget = self._budget.from_now() if self.is_refined else self._budget  # measured by the partner
        with connection.asked():
            return await action.filled(worker, budget, on_draft, context)

    def _on_draft(self, report: Report) -> OnDraft | None:
        """The callback for each draft, which notes the time of one that is shown; None if nobody would see drafts."""
        session, snapshot, features = self._session, self._action.snapshot, self._session.features
        if self._token is None and not (features.progress or features.drafts):
            return None
        progress, reader = DraftProgress(), DraftReader(snapshot, self._action.holes)
        drafts = DraftSender(session.editor.notify, kind="action", encoding=features.encoding, token=self._token)

        def on_draft(draft: Draft) -> None:
            report(*progress.after(draft))
            if features.drafts:
                self._drafted_s.append(time.monotonic())
                drafts.send(draft, snapshot if session.is_current(snapshot) else None, lambda: reader.read(draft))

        return on_draft

    @property
    def timing(self) -> Timing:
        """When the user asked, and when they saw the first draft."""
        return Timing(self._began_s, next(iter(self._drafted_s), None))

    def answered(self, texts: tuple[str, ...]) -> AnsweredRequest:
        """The same as a record."""
        action = self._action
        return AnsweredRequest(
            action.snapshot,
            action.holes,
            self._places,
            texts,
            "action",
            self._budget,
            action.marker,
            (time.monotonic() - self._sent_s) * 1000,
            FillOptions(strength_of(action.kind, action.strength), action.instruction),
        )


def _connection(session: Session, action: Action) -> WorkerConnection:
    """The connection to ask for the action. Raises NotDone."""
    if action.kind is not ActionKind.REFINE:
        return session.worker
    if session.partner_connection is None:
        raise NotDone(NO_PARTNER)
    return session.partner_connection
