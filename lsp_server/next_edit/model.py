"""Next edits from the model, if the syntax alone finds none: sends changes, receives edits."""

import asyncio
import itertools
import logging
from collections.abc import Sequence
from difflib import SequenceMatcher

from inference.messages import Hunk, NextEditRequest
from inference.models.catalogue import EMBEDDED
from lsp_server.documents.document import Snapshot
from lsp_server.documents.uris import path_of
from lsp_server.fill.host import Host
from lsp_server.next_edit.finder import offerable
from lsp_server.next_edit.recent import LINE
from lsp_server.next_edit.renames import NextEdit
from lsp_server.syntax.source import well_formed
from lsp_server.worker import WorkerClient, WorkerFailure, alive
from lsp_server.worker.state import ClientState

log = logging.getLogger(__name__)
_ids = itertools.count(1)
_MOST_EDITS = 6
"""How far back the model looks."""
WHY = "the model expects it after your last edits"


async def propose(host: Host, snapshot: Snapshot, earlier: Sequence[str]) -> Sequence[NextEdit]:
    """The model's edits for a document, best first; `earlier` are its texts before each recent edit, newest first."""
    settings, client = host.settings_of(snapshot.uri), host.model_client
    is_local = client.last_status is not None and not client.last_status.server
    if settings.model == EMBEDDED or not is_local or client.state not in (ClientState.READY, ClientState.BUSY):
        return ()
    if not await host.may_send(snapshot):
        return ()
    try:
        return await ask(client, snapshot, earlier, settings.deadline_ms.invoked)
    except WorkerFailure as failure:
        log.info("the model proposes no next edit: %s", failure)
        return ()


async def ask(
    client: WorkerClient, snapshot: Snapshot, earlier: Sequence[str], deadline_ms: int | None = None
) -> Sequence[NextEdit]:
    """The edits that a worker's model proposes, best first. Raises WorkerFailure."""
    hunks = await asyncio.to_thread(_hunks, snapshot.text, earlier)
    if not hunks:
        return ()
    name = path_of(snapshot.uri).rpartition("/")[2]
    request = NextEditRequest(
        f"next-{next(_ids)}", well_formed(snapshot.text), hunks, snapshot.language_id, name, deadline_ms=deadline_ms
    )
    found = await alive.while_alive(client, client.infill(request), (deadline_ms or 0) / 1000 + alive.GRACE_S)
    edits = [NextEdit(edit.start, edit.end, edit.text, WHY) for edit in found.edits]
    return await asyncio.to_thread(offerable, snapshot, edits)


def _hunks(text: str, earlier: Sequence[str]) -> tuple[Hunk, ...]:
    """The changes, by whole lines, with the last edit's change last."""
    newest, oldest = earlier[0], earlier[:_MOST_EDITS][-1]
    last = {hunk.line for hunk in _line_hunks(newest, text)}
    found = _line_hunks(oldest, text)
    return tuple(sorted(found, key=lambda hunk: any(line in last for line in _lines_of(hunk))))


def _lines_of(hunk: Hunk) -> range:
    return range(hunk.line, hunk.line + max(1, hunk.new.count("\n")))


def _line_hunks(old: str, new: str) -> list[Hunk]:
    before, after = (LINE.findall(well_formed(text)) for text in (old, new))
    differ = (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
    first = next(differ, min(len(before), len(after)))
    matcher = SequenceMatcher(None, before[first:], after[first:], autojunk=False)
    return [
        Hunk(first + k, "".join(before[first + i : first + j]), "".join(after[first + k : first + m]))
        for tag, i, j, k, m in matcher.get_opcodes()
        if tag != "equal"
    ]
