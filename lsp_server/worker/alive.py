"""Wait for a worker that is slow, and give up on one that hangs: it no longer says how it is.

A worker also says how long its model has been in one step: a thread deep in a driver may hang while the process lives.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from inference.messages import ErrorCode, InfillRequest
from lsp_server.worker.client import WorkerClient
from lsp_server.worker.failure import SilentError, StillLoadingError, WorkerFailure
from lsp_server.worker.link import OnDraft, WorkerAnswer
from lsp_server.worker.processes import is_stopped, pid_of
from lsp_server.worker.state import ClientState

GRACE_S = 2.0
"""A worker that has its model and is this much later than the deadline is slow, or it hangs: ask it."""
LATE_S = 0.5
"""So much after its deadline an answer may still come: the worker ends its work between two steps."""
ANSWER_S = 3.0
"""A worker that has its model answers at once, however slow it is; after this long without an answer it hangs."""
LOADING_ANSWER_S = 60.0
"""A worker that loads may be silent for long: the libraries that it imports may come from a cold or distant disk."""
HUNG_STEP_S = 120.0
"""No step takes this long, on the slowest processor with the largest model: the model hangs."""
_HUNG = (
    "The model has been in one step for {:.0f} s and hangs; "
    "end its worker with the command infill-ls.restartWorker, or with `infill-ls worker --stop`"
)
_TICK_S = 0.5
_HAS_MODEL = (ClientState.READY, ClientState.BUSY)
_T = TypeVar("_T")


async def loaded(worker: WorkerClient) -> None:
    """Start the worker if need be, and wait until it has loaded its model, for as long as it shows signs of life.

    Raises WorkerFailure where it cannot be started, cannot load its model, ends, or hangs (then SilentError). Progress
    goes to `on_status` and `on_state` of the client. Cancelling this leaves the worker loading.
    """
    await while_alive(worker, worker.settled(), GRACE_S)


async def load(worker: WorkerClient) -> None:
    """The same, but a worker that somebody ends while it loads stays ended, which is no failure."""
    await while_alive(worker, worker.load(), GRACE_S)


async def answer(worker: WorkerClient, request: InfillRequest, on_draft: OnDraft | None = None) -> WorkerAnswer:
    """The worker's answer to `request`, however late, as long as it is alive. Raises WorkerFailure.

    A worker that hangs is known by the deadline, unless that is short. Cancelling this cancels the request.
    """
    patience_s = max((request.deadline_ms or 0) / 1000 - ANSWER_S, 0)
    return await while_alive(worker, worker.infill(request, on_draft), patience_s)


async def in_time(worker: WorkerClient, work: Coroutine[Any, Any, _T], left_ms: float, deadline_ms: int) -> _T:
    """Returns the result of `work`, which waits for the worker. `work` never outlives this call.

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
    """The result of `work`, which waits for the worker. Raises WorkerFailure where the worker hangs.

    A worker that has its model is first asked after `patience_s`; a model that is longer than `hung_step_s` in one step
    counts as hanging. A worker that loads is asked all the time, and may take as long as it likes.
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
        asked.add_done_callback(_retrieve)


def _retrieve(task: "asyncio.Task[Any]") -> None:
    """Take the result of work that nobody waits for any more, or asyncio logs an error."""
    if not task.cancelled():
        task.exception()


async def _require_life(worker: WorkerClient, hung_step_s: float) -> None:
    """Raises WorkerFailure when the worker no longer says even how it is, or says that its model hangs."""
    if not await worker.answers(ANSWER_S):
        raise SilentError(worker.paths, worker.pid)
    step_s = worker.last_status.step_s if worker.last_status else 0.0
    if step_s > hung_step_s:
        raise WorkerFailure(ErrorCode.STOPPED, _HUNG.format(step_s))


async def _require_life_while_loading(worker: WorkerClient) -> None:
    """Raises SilentError when the worker is stopped, or has said nothing for `LOADING_ANSWER_S`."""
    give_up = asyncio.get_running_loop().time() + LOADING_ANSWER_S
    while not await worker.answers(ANSWER_S):
        if is_stopped(worker.pid) or asyncio.get_running_loop().time() >= give_up:
            raise SilentError(worker.paths, worker.pid)
