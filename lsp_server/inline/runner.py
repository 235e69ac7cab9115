"""Runs computations: gathers their context, asks the worker, and forwards what the user types meanwhile."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from inference.messages import Snippet
from lsp_server.documents.document import Snapshot
from lsp_server.fill.pipeline import FillResult, fill
from lsp_server.inline.computation import Computation
from lsp_server.worker import WorkerClient, WorkerFailure, alive
from lsp_server.worker.failure import SilentError, StillLoadingError

log = logging.getLogger(__name__)
GatherContext = Callable[[Snapshot, int, bool], Awaitable[tuple[Snippet, ...]]]
"""Gathers context from other files for a hole at an offset; may take longer if True says that the user is waiting."""
MaySend = Callable[[Snapshot], Awaitable[bool]]
"""Whether the model may see a document; may take a moment."""
Tell = Callable[[StillLoadingError | SilentError], None]
"""Tells the user why an explicit request found nothing."""


class Connection(Protocol):
    """The connection to the worker: its client, at once in any state, or once it has loaded its model."""

    @property
    def client(self) -> WorkerClient: ...
    async def loaded(self) -> WorkerClient: ...


class ComputationRunner:
    """Asks the worker of one session."""

    def __init__(self, connection: Connection, gather_context: GatherContext, may_send: MaySend, tell: Tell) -> None:
        self._connection = connection
        self._tell = tell
        self._gather_context = gather_context
        self._failing = False
        self._may_send = may_send

    async def run(self, computation: Computation, pause_s: float, *, drafts: bool) -> FillResult:
        """The worker's results, requested after a pause; empty if it fails. Cancelling this cancels the request."""
        try:
            client, budget = self._connection.client, computation.budget
            if computation.invoked:
                client = await alive.in_time(client, self._connection.loaded(), budget.left_ms, budget.deadline_ms)
            gathering = self._gather_context(computation.snapshot, computation.hole.start, computation.invoked)
            allowing = self._may_send(computation.snapshot)
            context, may_send, _ = await asyncio.gather(gathering, allowing, asyncio.sleep(pause_s))  # together
            if not may_send:
                return FillResult([], late=False)
            computation.sent_at_s = asyncio.get_running_loop().time()
            filled = await fill(
                client,
                computation.snapshot,
                [computation.hole],
                computation.budget,
                request_id=computation.id,
                on_draft=computation.show if drafts else None,
                context=context,
                marker=computation.marker,
            )
        except WorkerFailure as failure:
            level = logging.INFO if self._failing else logging.WARNING  # not on every keystroke
            log.log(level, "no inline completion: %s", failure)
            self._failing = True
            if computation.invoked and isinstance(failure, StillLoadingError | SilentError):
                self._tell(failure)  # the connection reports all others
            return FillResult([], late=False)
        self._failing = False
        return filled

    def amend(self, computation: Computation) -> None:
        """Tells the worker what was typed into the hole."""
        text = computation.amendment()
        try:
            if text is not None:
                self._connection.client.amend(computation.id, 0, text)
        except WorkerFailure as failure:
            log.info("could not amend: %s", failure)  # the waiting request fails too
