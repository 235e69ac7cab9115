"""The engine's thread: it loads a model, then works on all requests, a step of each in turn.

Editors go before the endpoint's clients, which get the steps that no editor waits for. Among editors, and among the
endpoint's clients, the one with the least engine time goes first, over all its requests; one that was idle comes back
level with those who are served. An editor's explicit requests go before its automatic ones, and those before its next
edits. They go before other editors', too, until it is `_AHEAD_S` ahead of them; then these have their turns, so no
editor waits for ever for another one. Of equal requests the one with the least time goes first, and on a tie the
newest. Everything here except `EngineThread.run` is called on the event loop.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
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
from inference.serving.worker_socket import claim_alias

if TYPE_CHECKING:  # it imports torch
    from inference.engine.engine import Engine

_PAUSE_S = 1.0
"""After this long without a request, prepare for later ones, and return freed memory to the system."""
_NEXT_PAUSE_S = 0.05
"""How long to wait for a request between two preparations."""
_AHEAD_S = 5.0
"""How much more engine time a client may have had than another whose request is one rank lower."""

LoadEngine = Callable[[WorkerArguments, OnProgress], "Engine"]
"""Loads an engine; takes seconds to minutes. Raises ModelError if it is unusable."""


class DeviceLostError(Exception):
    """The accelerator failed; only a new process can use it again."""


class EngineWork:
    """A job in the engine's thread."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.used_s = 0.0
        self.prefill_s = 0.0
        """How long the prompts of later requests were read meanwhile."""
        self.steps: Any = None
        """The engine's work, once it has begun: an event per step, None for no news, `Done` last."""
        self.is_cancelled = False
        self.events: asyncio.Queue[JobEvent] = asyncio.Queue()
        self.ended = asyncio.Event()

    @property
    def is_of_endpoint(self) -> bool:
        return self.job.priority is JobPriority.ENDPOINT

    @property
    def sort_key(self) -> tuple[bool, float, int, float]:
        """The lowest is next."""
        rank = self.job.priority
        ahead_s = 0.0 if self.is_of_endpoint else _AHEAD_S * rank
        return self.is_of_endpoint, self.job.client.used_s + ahead_s, rank, self.used_s


class StepSchedule:
    """Says whose step is next. `works` are all that have begun."""

    def __init__(self) -> None:
        self.works: list[EngineWork] = []
        self._clocks_s = {False: 0.0, True: 0.0}
        """How much time those who are served have had, of the editors and of the endpoint's clients."""

    def begin(self, job: Job) -> EngineWork:
        work = EngineWork(job)
        if all(active.job.client is not job.client for active in self.works):  # it was idle, for which it gets nothing
            job.client.used_s = max(job.client.used_s, self._clocks_s[work.is_of_endpoint])
        self.works.append(work)
        return work

    def next_work(self) -> EngineWork | None:
        """The work whose step is next; None if there is none."""
        return min(reversed(self.works), key=lambda work: work.sort_key, default=None)

    def yields_to_prefill(self, work: EngineWork) -> bool:
        """Whether only next edits are searched, and reading ahead has had less time than this one."""
        are_next_edits = all(each.job.priority is JobPriority.NEXT_EDIT for each in self.works)
        return are_next_edits and not work.is_cancelled and work.prefill_s < work.used_s

    def charge(self, work: EngineWork, seconds: float) -> None:
        """A step of `work` took so long."""
        group = work.is_of_endpoint
        self._clocks_s[group] = max(self._clocks_s[group], work.job.client.used_s)
        work.used_s += seconds
        work.job.client.used_s += seconds


class EngineThread:
    """An engine and its thread (`scheduler.Backend`)."""

    def __init__(self) -> None:
        self._call_on_loop = asyncio.get_running_loop().call_soon_threadsafe
        self._schedule_changed = threading.Condition()
        """Guards the schedule."""
        self._schedule = StepSchedule()
        self._step_began: float | None = None
        self._engine: Engine | None = None

    def facts(self) -> dict[str, Any]:
        names = (
            *("model", "device", "dtype", "note", "context_tokens", "token_ms", "prompt_token_ms", "edits"),
            *("ahead_tokens", "ahead_hits"),
        )
        facts = {name: getattr(self._engine, name) for name in names if hasattr(self._engine, name)}
        began = self._step_began
        return facts | {"step_s": 0.0 if began is None else time.monotonic() - began}

    async def replies(self, job: Job) -> AsyncGenerator[JobEvent, None]:
        with self._schedule_changed:
            work = self._schedule.begin(job)
            self._schedule_changed.notify()
        try:
            while True:
                yield await work.events.get()
        finally:
            with self._schedule_changed:
                work.is_cancelled = True
                self._schedule_changed.notify()
            with suppress(TimeoutError):  # a step that takes longer ends by itself
                async with asyncio.timeout(CLOSE_S):
                    await work.ended.wait()

    async def close(self) -> None:
        """The thread ends with the process."""

    def run(self, engine: "Engine") -> None:
        """Steps for ever; a failure ends only its own request. Raises DeviceLostError."""
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
            for work in self._schedule.works:
                self._call_on_loop(work.ended.set)

    def _wait_for_next(self, engine: "Engine") -> EngineWork:
        """The next work. While only next edits are searched, reading ahead gets half of the time."""
        pause_s: float | None = _PAUSE_S
        while True:
            with self._schedule_changed:
                cancelled = next((work for work in self._schedule.works if work.is_cancelled), None)
                work = cancelled or self._schedule.next_work()
                if work and not (self._schedule.yields_to_prefill(work) and engine.is_prefill_pending):
                    return work
                is_idle = engine.is_prefill_pending or not self._schedule_changed.wait(pause_s)
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
        """Whether there may be more of it. Raises DeviceLostError."""
        try:
            with _core_to_spare():
                return engine.run_idle_task()
        except Exception as error:
            _check_device(error)
            log.error("nothing is prepared for later requests: %s", redacted_traceback(error))
            return False

    def _step(self, work: EngineWork, engine: "Engine") -> JobEvent | None:
        """The news of a step. Raises DeviceLostError if no further step can succeed."""
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
            self._schedule.charge(work, time.monotonic() - began)

    def _free(self, work: EngineWork) -> None:
        """Takes `work` off the list and frees its memory: a client with the answer may count on that."""
        try:
            if work.steps is not None:
                work.steps.close()
        except Exception as error:
            log.error("a request could not be closed: %s", redacted_traceback(error))
        work.steps = None
        with self._schedule_changed:
            self._schedule.works.remove(work)
        self._call_on_loop(work.ended.set)


@contextmanager
def _core_to_spare() -> Iterator[None]:
    """Leaves one core to the editor, where there are more than two: with one of two, all takes twice as long."""
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
    """The engine on the command line's checkpoint. Raises ModelError."""
    began = time.monotonic()
    if arguments.model == EMBEDDED:
        # its steps are small: 0.28 s on two free cores against 0.20 s for two threads, 0.8 s against 2 to 8 s on busy
        os.environ.setdefault("OMP_NUM_THREADS", "1")
    from inference.engine.engine import Engine  # here and not above: importing torch takes seconds
    from inference.models import registry

    log.info("engine imported after %.2f s", time.monotonic() - began)
    edits = arguments.edits and edit_prompts.guess_kind(arguments.edits, Path(arguments.model).name)
    if arguments.edits and not edits:
        registry.open_checkpoint(arguments.model)  # first of all it must be there
        raise ModelError(edit_prompts.kind_advice(arguments.model))
    family = registry.load_model(
        arguments.model, device=arguments.device, dtype=arguments.dtype, on_progress=on_progress
    )
    engine = Engine(family, edits=edits)
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
                named = arguments.socket_for_model(choice.model)
                if named and not claim_alias(named, arguments.socket):
                    call_on_loop(service.yield_to, named)
                    return
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
