"""Which of two fills of the same holes is the better one: the model's own draft, or what the partner wrote.

Both have been fitted, so neither repeats what stands around it. What breaks the parse where the other does not is the
worse one, as among candidates of one model. Else the likelier one is better: by our own model's likelihood of the fill
and of the start of what follows. The draft stays where they are equal, or where nobody can tell.
"""

import asyncio
import logging
from collections.abc import Sequence
from itertools import count

from inference.messages import ScoreRequest
from lsp_server import carve
from lsp_server.carve import Span
from lsp_server.documents.document import Snapshot
from lsp_server.documents.uris import path_of
from lsp_server.fill import fitting
from lsp_server.syntax.source import well_formed
from lsp_server.worker import WorkerClient, WorkerFailure, alive

log = logging.getLogger(__name__)
_ids = count(1)


async def is_better(
    worker: WorkerClient,
    snapshot: Snapshot,
    spans: Sequence[Span],
    draft: Sequence[str],
    other: Sequence[str],
    *,
    deadline_ms: int,
    marker: str = "",
) -> bool:
    """Whether `other` is better than `draft`. Cancelling this cancels the request in the worker."""
    if tuple(draft) == tuple(other):
        return False
    draft_breaks, other_breaks = await asyncio.to_thread(_broken, snapshot, spans, draft, other)
    if draft_breaks != other_breaks:
        return draft_breaks
    request = ScoreRequest(
        id=f"compare-{next(_ids)}",
        segments=carve.segments(snapshot.text, spans, snapshot.before, snapshot.after, marker=marker),
        candidates=(tuple(map(well_formed, draft)), tuple(map(well_formed, other))),
        language=snapshot.language_id,
        path=path_of(snapshot.uri).rpartition("/")[2],
        deadline_ms=deadline_ms,
    )
    try:
        scores = await alive.while_alive(worker, worker.score(request), deadline_ms / 1000 + alive.GRACE_S)
    except WorkerFailure as failure:
        log.info("the partner's text was not compared: %s", failure)
        return False
    return len(scores) == 2 and scores[1] > scores[0]


def _broken(snapshot: Snapshot, spans: Sequence[Span], draft: Sequence[str], other: Sequence[str]) -> tuple[bool, bool]:
    broken = (fitting.breaks_parse(snapshot, spans, tuple(texts)) for texts in (draft, other))
    return next(broken), next(broken)
