"""Waits for a slow worker, and gives up on a hung one, which no longer reports its status or ends its step."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from inference.messages import ErrorCode, InfillRequest
from lsp_server.worker.client import WorkerClient
from lsp_server.worker.exchange import OnDraft, WorkerAnswer
from lsp_server.worker.failure import SilentError, StillLoadingError, WorkerFailure
from lsp_server.worker.processes import is_stopped, pid_of
from lsp_server.worker.state import ClientState

GRACE_S = 2.0
"""A worker with its model that is this late after the deadline is either slow or hung: ask it."""
LATE_S = 0.5
"""An answer may still come this long after its deadline: the worker stops between two steps."""
ANSWER_S = 3.0
"""A worker with its model answers immediately, however slow it is; after this silence it is hung."""
LOADING_ANSWER_S = 60.0
"""A loading worker may be silent for long, since it may import libraries from a cold or distant disk."""
HUNG_STEP_S = 120.0
"""No step takes this long, even on the slowest processor with the largest model: the model is hung."""
_HUNG = (
    "The model has been in one step for {:.0f} s and hangs; "
    "end its worker with the command infill-ls.restartWorker, or with `infill-ls worker --stop`"
)
_TICK_S = 0.5
_HAS_MODEL = (ClientState.READY, ClientState.BUSY)
_T = TypeVar("_T")


async def loaded(worker: WorkerClient) -> None:
    """Starts the worker if needed, and waits until it has loaded its model, as long as it shows signs of life.

    Raises WorkerFailure, if it hangs SilentError. Cancelling this leaves the worker loading.
    """
    await while_alive(worker, worker.settled(), GRACE_S)


async def load(worker: WorkerClient) -> None:
    """The same, but a worker that someone ends while it loads stays ended, which is not a failure."""
    await while_alive(worker, worker.load(), GRACE_S)


async def answer(worker: WorkerClient, request: InfillRequest, on_draft: OnDraft | None = None) -> WorkerAnswer:
    """The worker's answer to `request`, however late, while it lives. Raises WorkerFailure. Cancelling cancels it."""
    patience_s = max((request.deadline_ms or 0) / 1000 - ANSWER_S, 0)
    return await while_alive(worker, worker.infill(request, on_draft), patience_s)


async def in_time(worker: WorkerClient, work: Coroutine[Any, Any, _T], left_ms: float, deadline_ms: int) -> _T:
    """The result of `work`, which waits for the worker and never outlives this call.

    At the deadline, raises SilentError if the worker is stopped, StillLoadingError if it has no model yet, and
    otherwise TimeoutError a moment later.
    """
    asked = asyncio.create_task(work)
    try:
        if (await asyncio.wait({asked}, timeout=max(left_ms, 0) / 1000))[0]:
            return asked.result()
        pid = worker.pid or await asyncio.to_thread(pid_of, worker.paths)
        if is_stopped(pid):
            raise SilentError(worker.paths, pid)
        if worker.state not in _HAS_MODEL:
            raise StillLoadingError(deadline_ms, worker.reason)
        async with asyncio.timeout(LATE_S):
            return await asked
    finally:
        asked.cancel()


async def while_alive(
    worker: WorkerClient, work: Coroutine[Any, Any, _T], patience_s: float, hung_step_s: float = HUNG_STEP_S
) -> _T:
    """The result of `work`, which waits for the worker. Raises WorkerFailure if the worker hangs.

    First asks a worker with its model after `patience_s`; a step of more than `hung_step_s` counts as hung. A loading
    worker may take any time.
    """
    asked = asyncio.create_task(work)
    left_s = patience_s
    try:
        while not (await asyncio.wait({asked}, timeout=_TICK_S))[0]:
            if worker.state in _HAS_MODEL:
                left_s -= _TICK_S
                if left_s <= 0:
                    await _require_life(worker, hung_step_s)
                    left_s = GRACE_S
            else:
                await _require_life_while_loading(worker)
        return asked.result()
    finally:
        asked.cancel()
        asked.add_done_callback(lambda task: task.cancelled() or task.exception())  # or asyncio logs an error


async def _require_life(worker: WorkerClient, hung_step_s: float) -> None:
    """Raises WorkerFailure if the worker no longer reports its status, or reports a hung model."""
    if not await worker.answers(ANSWER_S):
        raise SilentError(worker.paths, worker.pid)
    step_s = worker.last_status.step_s if worker.last_status else 0.0
    if step_s > hung_step_s:
        raise WorkerFailure(ErrorCode.STOPPED, _HUNG.format(step_s))


async def _require_life_while_loading(worker: WorkerClient) -> None:
    """Raises SilentError if the worker is stopped, or has been silent for `LOADING_ANSWER_S`."""
    give_up = asyncio.get_running_loop().time() + LOADING_ANSWER_S
    while not await worker.answers(ANSWER_S):
        if is_stopped(worker.pid) or asyncio.get_running_loop().time() >= give_up:
            raise SilentError(worker.paths, worker.pid)
