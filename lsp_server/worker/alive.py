"""A worker that hangs is given up, one that is slow is waited for: the difference is that it still says how it is.

It also says how long its model has been in one step: a thread deep in a driver may hang while the process lives.
"""

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
HUNG_STEP_S = 120.0
"""No step takes so long, on the slowest processor with the largest model: the model hangs."""
_HUNG = (
    "The model has been in one step for {:.0f} s and hangs; "
    "end its worker with the command infill-ls.restartWorker, or with `infill-ls worker --stop`"
)
_TICK_S = 0.5
_T = TypeVar("_T")


async def answer(worker: WorkerClient, request: InfillRequest, on_draft: OnDraft | None = None) -> Fill:
    """What the worker says to `request`, however late, as long as it is alive. Raises WorkerFailure.

    Cancelling this cancels the request in the worker.
    """
    return await while_alive(worker, worker.infill(request, on_draft), (request.deadline_ms or 0) / 1000 + GRACE_S)


async def while_alive(
    worker: WorkerClient, work: Coroutine[Any, Any, _T], patience_s: float, hung_step_s: float = HUNG_STEP_S
) -> _T:
    """What `work`, which waits for the worker, comes to. Raises WorkerFailure where the worker hangs.

    The worker is first asked after `patience_s`; time does not count while it loads its model. A model that is longer
    than `hung_step_s` in one step counts as hanging.
    """
    asked = asyncio.create_task(work)
    left_s = patience_s
    try:
        while not (await asyncio.wait({asked}, timeout=_TICK_S))[0]:
            left_s -= _TICK_S * (worker.state in (ClientState.READY, ClientState.BUSY))
            if left_s <= 0:
                await _require_life(worker, hung_step_s)
                left_s = GRACE_S
        return asked.result()
    finally:
        asked.cancel()


async def _require_life(worker: WorkerClient, hung_step_s: float) -> None:
    """Raises WorkerFailure when the worker no longer says even how it is, or says that its model hangs."""
    if not await worker.answers(ANSWER_S):
        raise WorkerFailure(ErrorCode.STOPPED, "The worker does not answer; `infill-ls doctor` tells more")
    step_s = worker.last_status.step_s if worker.last_status else 0.0
    if step_s > hung_step_s:
        raise WorkerFailure(ErrorCode.STOPPED, _HUNG.format(step_s))
