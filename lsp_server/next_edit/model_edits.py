"""Next edits from a model, if the rules find none: sends changes, receives judged edits or a rewrite."""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from inference.messages import Hunk, NextEditRequest, ScoredEdit, WorkerState
from inference.models.catalogue import AUTO, EMBEDDED
from lsp_server.next_edit.alike_edits import alike_line_edits
from lsp_server.next_edit.cross_file import NextEditInput
from lsp_server.next_edit.edits import NextEdit, trimmed_edit
from lsp_server.next_edit.judge import EditValidator
from lsp_server.next_edit.regions import lines_to_rewrite, lines_using_change
from lsp_server.next_edit.rewrite_filter import REASON, edits_from_rewrite
from lsp_server.next_edit.text_diff import TextDiff
from lsp_server.syntax.parsing import replace_lone_surrogates
from lsp_server.worker import WorkerClient, WorkerError
from lsp_server.worker.client import ClientState

if TYPE_CHECKING:
    from lsp_server.session import Session

log = logging.getLogger(__name__)
_MAX_EDITS = 6


async def propose_model_edits(session: "Session", edit_input: NextEditInput) -> Sequence[NextEdit]:
    """Returns a model's edits for a document, best first: those of the edit model, if the user has one."""
    uri = edit_input.snapshot.uri
    fill_model = session.worker.client
    edit_model = session.edit_model
    client = edit_model if edit_model and _may_request(edit_model, fill_model) else fill_model
    if (client is fill_model and not _can_judge(session, uri)) or await session.fresh_disabled_reason(uri):
        return ()
    others = edit_input.other_documents
    allowed = [document for document in others if await session.fresh_disabled_reason(document.uri) is None]
    edit_input = dataclasses.replace(edit_input, other_documents=allowed)
    name_of = session.configuration.path_in_workspace
    deadline_ms = session.settings_of(uri).deadline_ms.invoked
    try:
        try:
            return await request_edits(client, edit_input, name_of, deadline_ms)
        except WorkerError as failure:
            if client is fill_model or client.state is not ClientState.FAILED or not _may_request(client, fill_model):
                raise
            log.info("the edit model's worker is started again: %s", failure)
            return await request_edits(client, edit_input, name_of, deadline_ms)
    except WorkerError as failure:
        log.info("the model proposes no next edit: %s", failure)
        return ()


def _may_request(edit_model: WorkerClient, fill_model: WorkerClient) -> bool:
    """Whether to send requests to the edit model. `auto` waits for the fill model, to know how much memory that leaves,
    and is not tried again once nothing fits. A worker that had loaded one is started again after its fault.
    """
    if edit_model.options.model != AUTO or edit_model.has_model:
        return True
    last = edit_model.last_status
    had_loaded = last is not None and last.state in (WorkerState.READY, WorkerState.BUSY)
    failed = (ClientState.BACKING_OFF,) if had_loaded else (ClientState.BACKING_OFF, ClientState.FAILED)
    return edit_model.state not in failed and fill_model.has_model


def _can_judge(session: "Session", uri: str) -> bool:
    """Whether the fill model may know more than the rules."""
    client = session.worker.client
    is_local = client.last_status is not None and not client.last_status.server
    return session.settings_of(uri).model != EMBEDDED and is_local and client.has_model


async def request_edits(
    client: WorkerClient, edit_input: NextEditInput, name_of: Callable[[str], str], deadline_ms: int | None = None
) -> Sequence[NextEdit]:
    """Returns the edits worth offering: those of an edit model's rewrite, nearest to the cursor first; from a fill
    model the proposals that it expects, best first. Raises WorkerError.
    """
    rewrites = client.options.edits is not None
    request = await asyncio.to_thread(_request, edit_input, name_of, deadline_ms, rewrites=rewrites)
    if not (rewrites or request.proposals or request.regions):
        return ()
    scored = (await client.request(request)).edits
    if rewrites or (scored and (scored[0].start, scored[0].end) in request.regions):
        return await asyncio.to_thread(edits_from_rewrite, edit_input, scored[0]) if scored else ()
    edits = [trimmed_edit(edit.start, request.text[edit.start : edit.end], edit.text, REASON) for edit in scored]
    return await asyncio.to_thread(EditValidator(edit_input.snapshot, edit_input.old_texts).edits_to_offer, edits)


def _request(
    edit_input: NextEditInput, name_of: Callable[[str], str], deadline_ms: int | None, *, rewrites: bool
) -> NextEditRequest:
    """The text, its changes and those of other documents; for a fill model also the proposals."""
    snapshot = edit_input.snapshot
    text = replace_lone_surrogates(snapshot.text)
    hunks = _hunks(text, edit_input.old_texts)
    name = name_of(snapshot.uri)
    request = NextEditRequest("", text, hunks, snapshot.language_id, name, edit_input.cursor, deadline_ms)
    other_hunks = [
        replace(hunk, path=name_of(other.uri))
        for other in reversed(edit_input.other_documents)
        for hunk in _hunks(other.text, other.old_texts)
    ]
    request = replace(request, hunks=(*other_hunks, *hunks))
    if rewrites:
        return replace(request, hunks=edit_input.edit_model_hunks or request.hunks)
    edits = (ScoredEdit(edit.start, edit.end, edit.text, edit.score) for edit in alike_line_edits(text, hunks))
    regions = filter(None, dict.fromkeys([lines_to_rewrite(edit_input, text), lines_using_change(edit_input, text)]))
    return replace(request, path=name.rpartition("/")[2], proposals=tuple(edits), regions=tuple(regions))


def _hunks(text: str, old_texts: Sequence[str]) -> tuple[Hunk, ...]:
    """The changes, by whole lines, with the last edit's change last."""
    last = {hunk.line for old in old_texts[:1] for hunk in _line_hunks(old, text)}

    def is_last(hunk: Hunk) -> bool:
        return not last.isdisjoint(range(hunk.line, hunk.line + max(1, hunk.new.count("\n"))))

    hunks = [hunk for old in old_texts[:_MAX_EDITS][-1:] for hunk in _line_hunks(old, text)]
    return tuple(sorted(hunks, key=is_last))


def _line_hunks(old: str, new: str) -> list[Hunk]:
    diff = TextDiff(replace_lone_surrogates(old), replace_lone_surrogates(new))
    return [
        Hunk(
            diff.new.count("\n", 0, lines.start),
            diff.old[lines.old_start : lines.old_end],
            diff.new[lines.start : lines.end],
        )
        for lines in diff.changed_lines
    ]
