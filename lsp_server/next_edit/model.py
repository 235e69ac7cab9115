"""Next edits from a model, if the syntax alone finds none: sends changes, receives edits or a rewrite."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from inference.messages import Hunk, NextEditRequest, WorkerState
from inference.models.catalogue import AUTO, EMBEDDED
from lsp_server.next_edit.cross_file import Situation
from lsp_server.next_edit.edit_history import Comparison
from lsp_server.next_edit.finder import offerable
from lsp_server.next_edit.renames import NextEdit, trimmed
from lsp_server.next_edit.rewrite_filter import WHY, offers
from lsp_server.next_edit.similar import proposals
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
    uri = situation.snapshot.uri
    filling = session.worker.client
    client = session.edit_model if session.edit_model and _may_ask(session.edit_model, filling) else filling
    if (client is filling and not _can_judge(session, uri)) or await session.why_off_now(uri):
        return ()
    beside = () if client is filling else situation.others  # only an edit model sees them
    others = [each for each in beside if await session.why_off_now(each.uri) is None]
    asked = dataclasses.replace(situation, others=others)
    name_of = session.configuration.name_of
    deadline_ms = session.settings_of(uri).deadline_ms.invoked
    try:
        try:
            return await ask(client, asked, name_of, deadline_ms)
        except WorkerFailure as failure:
            if client is filling or client.state is not ClientState.FAILED or not _may_ask(client, filling):
                raise
            log.info("the edit model's worker is started again: %s", failure)
            return await ask(client, asked, name_of, deadline_ms)
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


def _can_judge(session: "Session", uri: str) -> bool:
    """Whether the model that fills may know more than the syntax."""
    client = session.worker.client
    is_local = client.last_status is not None and not client.last_status.server
    return session.settings_of(uri).model != EMBEDDED and is_local and client.has_model


async def ask(
    client: WorkerClient, situation: Situation, name_of: Callable[[str], str], deadline_ms: int | None = None
) -> Sequence[NextEdit]:
    """The edits worth offering: those of an edit model's rewrite, nearest to the cursor first, or else those that the
    model expects of lines like the changed ones, best first. Raises WorkerFailure.
    """
    rewrites = client.options.edits is not None
    request = await asyncio.to_thread(_request, situation, name_of, deadline_ms, rewrites=rewrites)
    if not (rewrites or request.proposals):
        return ()
    found = (await client.ask(request)).edits
    if rewrites:
        return await asyncio.to_thread(offers, situation, found[0]) if found else ()
    edits = [trimmed(edit.start, request.text[edit.start : edit.end], edit.text, WHY) for edit in found]
    return await asyncio.to_thread(offerable, situation.snapshot, edits)


def _request(
    situation: Situation, name_of: Callable[[str], str], deadline_ms: int | None, *, rewrites: bool
) -> NextEditRequest:
    """The text and its changes, for an edit model also those of other documents, for another one what it may expect."""
    snapshot = situation.snapshot
    text = well_formed(snapshot.text)
    hunks = _hunks(text, situation.earlier)
    name = name_of(snapshot.uri)
    asked = NextEditRequest("", text, hunks, snapshot.language_id, name, situation.cursor, deadline_ms)
    if not rewrites:
        return replace(asked, path=name.rpartition("/")[2], proposals=proposals(text, hunks))
    beside = [
        replace(hunk, path=name_of(other.uri))
        for other in reversed(situation.others)
        for hunk in _hunks(other.text, other.earlier)
    ]
    return replace(asked, hunks=(*beside, *hunks))


def _hunks(text: str, earlier: Sequence[str]) -> tuple[Hunk, ...]:
    """The changes, by whole lines, with the last edit's change last."""
    last = {hunk.line for before in earlier[:1] for hunk in _line_hunks(before, text)}

    def is_last(hunk: Hunk) -> bool:
        return not last.isdisjoint(range(hunk.line, hunk.line + max(1, hunk.new.count("\n"))))

    changes = [hunk for before in earlier[:_MOST_EDITS][-1:] for hunk in _line_hunks(before, text)]
    return tuple(sorted(changes, key=is_last))


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
