"""The engine's thread: it loads a model, then works on all requests, a step of each in turn.

Editors go before the endpoint's clients, which get only steps that no editor needs. Explicit requests go before
automatic ones, and those before next edits. Each `_DEMOTION_S` of engine time lowers a request's priority by one, at
most to that of next edits, so no editor waits for a long fill of another one. Among equals, the request whose last step
is longest ago goes first, and among those without a step the newest. Only `EngineThread.run` and what it calls run in
the thread, all else on the event loop.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from inference.messages import Done, ErrorCode, Failed, InfillRequest
from inference.models import edit_prompts
from inference.models.catalogue import AUTO, EMBEDDED
from inference.models.family import ModelError, OnProgress
from inference.serving.log_and_errors import failed_reply, is_device_lost, log, redacted_traceback
from inference.serving.scheduler import CLOSE_S, Job, JobEvent, JobPriority
from inference.serving.startup import WorkerArguments, prepare_process, release_memory, trim_heap
from inference.serving.worker_service import WorkerService

if TYPE_CHECKING:  # it imports torch
    from inference.engine.engine import Engine

_PAUSE_S = 1.0
"""After this long without a request, run idle tasks and return freed memory to the system."""
_NEXT_PAUSE_S = 0.05
"""How long to wait for a request between two idle tasks."""
_DEMOTION_S = 5.0
"""The engine time after which a request's priority drops by one."""

LoadEngine = Callable[[WorkerArguments, OnProgress], "Engine"]
"""Loads an engine; takes seconds to minutes. Raises ModelError if it is unusable."""


class DeviceLostError(Exception):
    """The accelerator failed; only a new process can use it again."""


class EngineWork:
    """A job in the engine's thread."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.used_s = 0.0
        self.last_step_end_s = 0.0
        """When the last step ended, on the monotonic clock."""
        self.prefill_s = 0.0
        """How long idle prefill has run while this was the next work."""
        self.steps: Any = None
        """The engine's run, once it has begun: each step yields an event or None, `Done` last."""
        self.is_cancelled = False
        self.events: asyncio.Queue[JobEvent] = asyncio.Queue()
        self.ended = asyncio.Event()

    @property
    def sort_key(self) -> tuple[int, float]:
        """The work with the lowest key is next."""
        demoted_priority = min(int(JobPriority.NEXT_EDIT), int(self.used_s / _DEMOTION_S))
        return max(self.job.priority, demoted_priority), self.last_step_end_s

    def charge(self, seconds: float, now_s: float) -> None:
        """Counts a step that took `seconds` and ended at `now_s`."""
        self.used_s += seconds
        self.last_step_end_s = now_s


def next_work(works: Sequence[EngineWork]) -> EngineWork | None:
    """The work that gets the next step; None if there is no work."""
    return min(reversed(works), key=lambda work: work.sort_key, default=None)


def _yields_to_prefill(work: EngineWork, works: Sequence[EngineWork]) -> bool:
    """Whether there are only next-edit requests, and idle prefill has had less time than `work`."""
    are_next_edits = all(item.job.priority is JobPriority.NEXT_EDIT for item in works)
    return are_next_edits and not work.is_cancelled and work.prefill_s < work.used_s


class EngineThread:
    """An engine and its thread (`scheduler.Backend`)."""

    def __init__(self) -> None:
        self._call_on_loop = asyncio.get_running_loop().call_soon_threadsafe
        self._works_changed = threading.Condition()
        """Guards `_works`, all requests that have begun."""
        self._works: list[EngineWork] = []
        self._step_began: float | None = None
        self._engine: Engine | None = None

    def status_fields(self) -> dict[str, Any]:
        fields = self._engine.status_fields() if self._engine else {}
        began = self._step_began
        return fields | {"step_s": 0.0 if began is None else time.monotonic() - began}

    async def replies(self, job: Job) -> AsyncGenerator[JobEvent, None]:
        work = EngineWork(job)
        with self._works_changed:
            self._works.append(work)
            self._works_changed.notify()
        try:
            while True:
                yield await work.events.get()
        finally:
            with self._works_changed:
                work.is_cancelled = True
                self._works_changed.notify()
            with suppress(TimeoutError):  # a step that takes longer ends by itself
                async with asyncio.timeout(CLOSE_S):
                    await work.ended.wait()

    async def close(self) -> None:
        """The thread ends with the process."""

    def run(self, engine: "Engine") -> None:
        """Runs steps forever; a failure ends only its own request. Raises DeviceLostError."""
        self._engine = engine
        try:
            while True:
                work = self._wait_for_next(engine)
                event = None if work.is_cancelled else self._step(work, engine)
                if work.is_cancelled or isinstance(event, Done | Failed):
                    self._free(work)
                if isinstance(event, Failed) and event.code is ErrorCode.OUT_OF_MEMORY:
                    release_memory()
                if event is not None:
                    self._call_on_loop(work.events.put_nowait, event)
        finally:
            for work in self._works:
                self._call_on_loop(work.ended.set)

    def _wait_for_next(self, engine: "Engine") -> EngineWork:
        """Waits for the next work and runs idle tasks meanwhile. Idle prefill gets half of the time of next edits."""
        pause_s: float | None = _PAUSE_S
        while True:
            with self._works_changed:
                cancelled = next((work for work in self._works if work.is_cancelled), None)
                work = cancelled or next_work(self._works)
                if work and not (_yields_to_prefill(work, self._works) and engine.is_prefill_pending):
                    return work
                is_idle = engine.is_prefill_pending or not self._works_changed.wait(pause_s)
            began = time.monotonic()
            may_continue = is_idle and self._run_idle_task(engine)  # not under the lock
            if work:
                work.prefill_s += time.monotonic() - began
            elif may_continue:
                pause_s = _NEXT_PAUSE_S
            elif is_idle:
                pause_s = None
                trim_heap()

    def _run_idle_task(self, engine: "Engine") -> bool:
        """Runs an idle task; returns whether there may be more. Raises DeviceLostError."""
        try:
            with _leave_one_core():
                return engine.run_idle_task()
        except Exception as error:
            _check_device(error)
            log.error("nothing is prepared for later requests: %s", redacted_traceback(error))
            return False

    def _step(self, work: EngineWork, engine: "Engine") -> JobEvent | None:
        """Runs a step and returns its event, if any. Raises DeviceLostError if no further step can succeed."""
        began = self._step_began = time.monotonic()
        try:
            request = work.job.request
            if work.steps is None:
                work.steps = (
                    engine.infill(request, deadline=work.job.deadline)
                    if isinstance(request, InfillRequest)
                    else engine.next_edits(request, deadline=work.job.deadline)
                )
            event: JobEvent | None = next(work.steps)
            return event
        except Exception as error:
            _check_device(error)
            return failed_reply(error, work.job.request.id)
        finally:
            self._step_began = None
            work.charge((now_s := time.monotonic()) - began, now_s)

    def _free(self, work: EngineWork) -> None:
        """Removes `work` and frees its memory, before the client gets the final reply."""
        try:
            if work.steps is not None:
                work.steps.close()
        except Exception as error:
            log.error("a request could not be closed: %s", redacted_traceback(error))
        work.steps = None
        with self._works_changed:
            self._works.remove(work)
        self._call_on_loop(work.ended.set)


@contextmanager
def _leave_one_core() -> Iterator[None]:
    """Leaves one core to the editor if there are more than two. One of two cores would take twice as long."""
    import torch  # here and not above: importing it takes seconds

    threads = torch.get_num_threads()
    torch.set_num_threads(threads - 1 if threads > 2 else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _check_device(error: Exception) -> None:
    if is_device_lost(error):
        log.error("the device is lost: %s", redacted_traceback(error))
        raise DeviceLostError(f"The device failed ({error}); the worker is restarted") from error


def load_engine(arguments: WorkerArguments, on_progress: OnProgress) -> "Engine":
    """Loads the engine with the command line's checkpoint. Raises ModelError."""
    began = time.monotonic()
    if arguments.model == EMBEDDED:
        # its steps are small: 0.28 s on two free cores against 0.20 s for two threads, 0.8 s against 2 to 8 s on busy
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    from inference.engine.engine import Engine  # here and not above: importing torch takes seconds
    from inference.models import registry

    edits = arguments.edits and edit_prompts.guess_kind(arguments.edits, Path(arguments.model).name)
    if arguments.edits and not edits:
        registry.open_checkpoint(arguments.model)  # first of all it must be there
        raise ModelError(edit_prompts.kind_advice(arguments.model))
    adapter = registry.load_model(
        arguments.model, device=arguments.device, dtype=arguments.dtype, on_progress=on_progress
    )
    engine = Engine(adapter, edits=edits)
    if engine.note:
        log.warning("%s: %s", engine.model, engine.note)
    engine.warm_up()
    log.info("%s loaded on %s as %s after %.2f s", engine.model, engine.device, engine.dtype, time.monotonic() - began)
    return engine


async def start_engine_thread(load: LoadEngine, arguments: WorkerArguments, service: WorkerService) -> EngineThread:
    """Loads a model in a new thread, which then runs it. Raises ModelError.

    The thread is a daemon, so that a process told to stop does not wait for a load. Only it imports torch.
    """
    call_on_loop = asyncio.get_running_loop().call_soon_threadsafe
    engine_thread = EngineThread()
    loaded: Future[None] = Future()
    loaded.set_running_or_notify_cancel()

    def on_progress(fraction: float, detail: str) -> None:
        call_on_loop(service.on_progress, fraction, detail)
        trim_heap()  # what a layer was made from, before the next one or the vocabulary comes on top

    def work() -> None:
        chosen = arguments
        try:
            prepare_process(arguments)
            if arguments.model == AUTO:
                from inference.models import recommend  # here and not above: it imports torch

                choice = recommend.choose_auto_model(arguments.device, edits=arguments.edits)
                call_on_loop(service.on_model_chosen, *choice)
                chosen = msgspec.structs.replace(arguments, model=choice.model)
            engine = load(chosen, on_progress)
        except BaseException as error:
            loaded.set_exception(error)
            return
        loaded.set_result(None)
        try:
            engine_thread.run(engine)
        except DeviceLostError as error:
            call_on_loop(service.on_failure, ErrorCode.INTERNAL, str(error))

    threading.Thread(target=work, name="engine", daemon=True).start()
    await asyncio.wrap_future(loaded)
    return engine_thread
