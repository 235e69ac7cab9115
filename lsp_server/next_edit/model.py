"""Next edits from a model, if the syntax alone finds none: sends changes, receives edits or a rewrite."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from inference.messages import Hunk, NextEditRequest, WorkerState
from inference.models.catalogue import AUTO, EMBEDDED
from lsp_server.documents.uris import path_of
from lsp_server.next_edit.elsewhere import Situation
from lsp_server.next_edit.finder import offerable
from lsp_server.next_edit.recent import Comparison
from lsp_server.next_edit.renames import NextEdit, trimmed
from lsp_server.next_edit.rewriting import WHY, offers
from lsp_server.syntax.parsing import well_formed
from lsp_server.worker import WorkerClient, WorkerFailure
from lsp_server.worker.client import ClientState

if TYPE_CHECKING:
    from lsp_server.session import Session

log = logging.getLogger(__name__)
_MOST_EDITS = 6
"""How far back the model looks."""


async def propose(session: "Session", situation: Situation) -> Sequence[NextEdit]:
    """A model's edits for a document, best first: those of the edit model, if the user has one."""
    snapshot = situation.snapshot
    edit_model = (
        session.edit_model if session.edit_model and _may_ask(session.edit_model, session.worker.client) else None
    )
    deadline_ms = session.settings_of(snapshot.uri).deadline_ms.invoked
    if not (edit_model or _can_judge(session, situation)) or await session.why_off_now(snapshot.uri):
        return ()
    try:
        if edit_model is None:
            return await ask(session.worker.client, situation, deadline_ms)
        others = [each for each in situation.others if await session.why_off_now(each.uri) is None]
        situation = dataclasses.replace(situation, others=others)
        name_of = session.configuration.name_of
        try:
            return await rewritten(edit_model, situation, name_of, deadline_ms)
        except WorkerFailure as failure:
            has_ended = edit_model.state is ClientState.FAILED
            if not has_ended or not _may_ask(edit_model, session.worker.client):
                raise
            log.info("the edit model's worker is started again: %s", failure)
            return await rewritten(edit_model, situation, name_of, deadline_ms)
    except WorkerFailure as failure:
        log.info("the model proposes no next edit: %s", failure)
        return ()


def _may_ask(edit_model: WorkerClient, other: WorkerClient) -> bool:
    """Whether to ask the edit model. `auto` waits for the model that fills, to know how much memory that leaves, and is
    not tried again once nothing fits. A worker that had loaded one is started again after its fault.
    """
    if edit_model.options.model != AUTO or edit_model.has_model:
        return True
    last = edit_model.last_status
    had_loaded = last is not None and last.state in (WorkerState.READY, WorkerState.BUSY)
    failed = (ClientState.BACKING_OFF,) if had_loaded else (ClientState.BACKING_OFF, ClientState.FAILED)
    return edit_model.state not in failed and other.has_model


def _can_judge(session: "Session", situation: Situation) -> bool:
    """Whether the model may know more than the syntax, after an edit."""
    client = session.worker.client
    name = session.settings_of(situation.snapshot.uri).model
    is_local = client.last_status is not None and not client.last_status.server
    return bool(situation.earlier) and name != EMBEDDED and is_local and client.has_model


async def rewritten(
    client: WorkerClient, situation: Situation, name_of: Callable[[str], str], deadline_ms: int | None = None
) -> Sequence[NextEdit]:
    """The edits worth offering of the edit model's rewrite, nearest to the cursor first. Raises WorkerFailure."""
    request = await asyncio.to_thread(_request, situation, name_of, deadline_ms)
    found = await client.ask(replace(request, cursor=situation.cursor))
    return await asyncio.to_thread(offers, situation, found.edits[0]) if found.edits else ()


async def ask(client: WorkerClient, situation: Situation, deadline_ms: int | None = None) -> Sequence[NextEdit]:
    """The edits that a worker's model proposes, best first. Raises WorkerFailure."""
    alone = dataclasses.replace(situation, others=())
    request = await asyncio.to_thread(_request, alone, lambda uri: path_of(uri).rpartition("/")[2], deadline_ms)
    found = (await client.ask(request)).edits
    edits = [trimmed(edit.start, request.text[edit.start : edit.end], edit.text, WHY) for edit in found]
    return await asyncio.to_thread(offerable, situation.snapshot, edits)


def _request(situation: Situation, name_of: Callable[[str], str], deadline_ms: int | None) -> NextEditRequest:
    """The text, and the changes of the other documents and its own."""
    snapshot, earlier = situation.snapshot, situation.earlier
    beside = [
        replace(hunk, path=name_of(other.uri))
        for other in reversed(situation.others)
        for hunk in _hunks(other.text, other.earlier)
    ]
    hunks = (*beside, *(_hunks(snapshot.text, earlier) if earlier else ()))
    name = name_of(snapshot.uri)
    text = well_formed(snapshot.text)
    return NextEditRequest("", text, hunks, snapshot.language_id, name, deadline_ms=deadline_ms)


def _hunks(text: str, earlier: Sequence[str]) -> tuple[Hunk, ...]:
    """The changes, by whole lines, with the last edit's change last."""
    last = {hunk.line for hunk in _line_hunks(earlier[0], text)}

    def is_last(hunk: Hunk) -> bool:
        return not last.isdisjoint(range(hunk.line, hunk.line + max(1, hunk.new.count("\n"))))

    return tuple(sorted(_line_hunks(earlier[:_MOST_EDITS][-1], text), key=is_last))


def _line_hunks(old: str, new: str) -> list[Hunk]:
    texts = Comparison(well_formed(old), well_formed(new))
    return [
        Hunk(
            texts.new.count("\n", 0, lines.start),
            texts.old[lines.old_start : lines.old_end],
            texts.new[lines.start : lines.end],
        )
        for lines in texts.lines
    ]
