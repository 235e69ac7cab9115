"""Runs computations: gathers their context, asks the worker, and tells it what the user types meanwhile."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from inference.messages import Snippet
from lsp_server.documents.document import Snapshot
from lsp_server.fill.pipeline import FillResult, fill
from lsp_server.inline.computation import Computation
from lsp_server.worker import WorkerClient, WorkerFailure

log = logging.getLogger(__name__)
GatherContext = Callable[[Snapshot, int], Awaitable[tuple[Snippet, ...]]]
"""Gathers context from other files for a hole at an offset; takes its time, but not long."""
MaySend = Callable[[Snapshot], Awaitable[bool]]
"""Whether the model may see a document; takes its time, but not long."""


async def no_context(_snapshot: Snapshot, _offset: int) -> tuple[Snippet, ...]:
    """No context."""
    return ()


async def always(_snapshot: Snapshot) -> bool:
    """The model may see every document."""
    return True


class Connection(Protocol):
    """The connection to the worker."""

    @property
    def client(self) -> WorkerClient:
        """The client, in whatever state."""

    async def loaded(self) -> WorkerClient:
        """The client, once its worker has loaded its model. Raises WorkerFailure."""


class ComputationRunner:
    """Asks the worker of one session."""

    def __init__(self, connection: Connection, gather_context: GatherContext, may_send: MaySend) -> None:
        self._connection = connection
        self._gather_context = gather_context
        self._failing = False
        self._may_send = may_send

    async def run(self, computation: Computation, pause_s: float, *, drafts: bool) -> FillResult:
        """What the worker finds, asked after a pause; nothing where it fails. Cancelling this cancels the request."""
        try:
            began_s = time.monotonic()
            client = await self._connection.loaded() if computation.invoked else self._connection.client
            computation.budget = computation.budget.extended(time.monotonic() - began_s)
            gathering = self._gather_context(computation.snapshot, computation.hole.start)
            allowing = self._may_send(computation.snapshot)
            context, may_send, _ = await asyncio.gather(gathering, allowing, asyncio.sleep(pause_s))  # all at once
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
            level = logging.INFO if self._failing else logging.WARNING  # not again at every letter
            log.log(level, "no inline completion: %s", failure)
            self._failing = True
            return FillResult([], late=False)
        self._failing = False
        return filled

    def amend(self, computation: Computation) -> None:
        """Tell the worker what was typed into the hole."""
        text = computation.amendment()
        try:
            if text is not None:
                self._connection.client.amend(computation.id, 0, text)
        except WorkerFailure as failure:
            log.info("could not amend: %s", failure)  # whoever waits learns of it, too
