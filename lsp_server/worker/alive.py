"""A worker that hangs is given up, one that is slow is waited for: the difference is that it still says how it is."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from inference.messages import ErrorCode, InfillRequest
from lsp_server.worker.client import WorkerClient
from lsp_server.worker.failure import WorkerFailure
from lsp_server.worker.link import Fill, OnDraft
from lsp_server.worker.states import ClientState

GRACE_S = 2.0
"""A worker that has its model and is so much later than the deadline is slow, or hangs: it is asked."""
ANSWER_S = 3.0
"""One that hangs says nothing for so long; one that is slow answers at once."""
_TICK_S = 0.5
_T = TypeVar("_T")


async def answer(worker: WorkerClient, request: InfillRequest, on_draft: OnDraft | None = None) -> Fill:
    """What the worker says to `request`, however late, as long as it is alive. Raises WorkerFailure.

    Cancelling this cancels the request in the worker.
    """
    return await while_alive(worker, worker.infill(request, on_draft), (request.deadline_ms or 0) / 1000 + GRACE_S)


async def while_alive(worker: WorkerClient, work: Coroutine[Any, Any, _T], patience_s: float) -> _T:
    """What `work`, which waits for the worker, comes to. Raises WorkerFailure where the worker hangs.

    The worker is first asked after `patience_s`; time does not count while it loads its model.
    """
    asked = asyncio.create_task(work)
    left_s = patience_s
    try:
        while not (await asyncio.wait({asked}, timeout=_TICK_S))[0]:
            left_s -= _TICK_S * (worker.state in (ClientState.READY, ClientState.BUSY))
            if left_s <= 0:
                await _require_life(worker)
                left_s = GRACE_S
        return asked.result()
    finally:
        asked.cancel()


async def _require_life(worker: WorkerClient) -> None:
    """Raises WorkerFailure when the worker no longer says even how it is."""
    if not await worker.answers(ANSWER_S):
        raise WorkerFailure(ErrorCode.STOPPED, "The worker does not answer; `infill-ls doctor` tells more")
