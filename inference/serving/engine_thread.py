"""The engine's thread: loads a model, then runs requests. The only place where the worker imports torch.

It reports to the worker's service on the event loop.
"""

import asyncio
import os
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from inference.messages import ErrorCode
from inference.models import auto
from inference.models.catalogue import AUTO, EMBEDDED
from inference.models.family import ModelError, OnProgress
from inference.serving.faults import is_out_of_memory, release_memory
from inference.serving.infiller import Infiller
from inference.serving.logs import describe, log
from inference.serving.scheduler import DeviceLostError, Scheduler
from inference.serving.startup import WorkerArguments
from inference.serving.worker_service import WorkerService

PROGRESS_EVERY_S = 0.1
_SHAPES_KEPT = "64"

LoadInfiller = Callable[[WorkerArguments, OnProgress], Infiller]
"""Loads an infiller; takes seconds to minutes. Raises ModelError if it is unusable."""


@asynccontextmanager
async def engine_thread(
    arguments: WorkerArguments, load: LoadInfiller, scheduler: Scheduler, service: WorkerService
) -> AsyncIterator[None]:
    """Loads and runs in its own thread. A daemon, so that a process told to stop does not wait for a load."""
    tell = asyncio.get_running_loop().call_soon_threadsafe
    work = partial(_work, arguments, load, scheduler, service, tell)
    threading.Thread(target=work, name="engine", daemon=True).start()
    yield


def _work(
    arguments: WorkerArguments,
    load: LoadInfiller,
    scheduler: Scheduler,
    service: WorkerService,
    tell: Callable[..., Any],
) -> None:
    try:
        tell(service.progress, 0.0, "starting")
        _share_the_machine()
        _name_a_temporary_folder(arguments.socket.parent)
        if arguments.model == AUTO:
            choice = auto.choose(arguments.device)
            tell(service.chosen, *choice)
            arguments = msgspec.structs.replace(arguments, model=choice.model)
        engine = load(arguments, throttled(partial(tell, service.progress)))
        tell(service.ready, engine)
        scheduler.run(engine)
    except DeviceLostError as error:
        tell(service.failed, ErrorCode.INTERNAL, str(error))
    except BaseException as error:
        tell(service.failed, *load_failure(error, arguments))


def load_engine(arguments: WorkerArguments, on_progress: OnProgress) -> Infiller:
    """The local engine on the command line's checkpoint. Raises ModelError."""
    began = time.monotonic()
    _compute_in_few_threads(arguments.model)
    os.environ["HF_HUB_OFFLINE"] = "1"  # a worker never downloads anything, even if a library wants to
    from inference.engine import Engine  # here and not above: importing torch takes seconds
    from inference.models import registry

    log.info("engine imported after %.2f s", time.monotonic() - began)
    family = registry.load(arguments.model, device=arguments.device, dtype=arguments.dtype, on_progress=on_progress)
    engine = Engine(family)
    if engine.note:
        log.warning("%s: %s", engine.model, engine.note)
    engine.warm_up()
    release_memory()  # packing the weights of half a billion parameters takes 300 MB more than keeping them
    log.info("%s loaded on %s as %s after %.2f s", engine.model, engine.device, engine.dtype, time.monotonic() - began)
    return engine


def _share_the_machine() -> None:
    """Keeps OpenMP from spinning and oneDNN from hoarding, unless the user's environment has settled that.

    Call it before importing torch. Beside another program, spinning threads made a fill of 0.2 s take 25 s on two
    cores. oneDNN keeps a program for each of the last 1,024 shapes, and each keystroke brings new ones: 90 MB in 29
    requests.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", _SHAPES_KEPT)
    os.environ.setdefault("LRU_CACHE_CAPACITY", _SHAPES_KEPT)  # torch's own, of oneDNN's operators


def _name_a_temporary_folder(folder: Path) -> None:
    """If nothing can be written, as on a full disk, sets the cache to `folder`: torch needs one and writes nothing."""
    try:
        tempfile.gettempdir()
    except OSError:
        log.warning("no temporary folder can be written; the disk may be full")
        tempfile.tempdir = str(folder)


def _compute_in_few_threads(model: str) -> None:
    """The embedded checkpoint's steps are so small that one thread is best, unless the user's environment says more.

    0.28 s on two free cores against 0.20 s for two threads, 0.8 s against 2 to 8 s on busy ones.
    """
    if model == EMBEDDED:
        os.environ.setdefault("OMP_NUM_THREADS", "1")


def throttled(on_progress: OnProgress) -> OnProgress:
    """Reports progress at most every `PROGRESS_EVERY_S`: a checkpoint has thousands of tensors."""
    last = -PROGRESS_EVERY_S

    def progress(fraction: float, detail: str) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_EVERY_S:
            last = time.monotonic()
            on_progress(fraction, detail)

    return progress


def load_failure(error: BaseException, arguments: WorkerArguments) -> tuple[ErrorCode, str]:
    """Why there is no engine, for the user. ModelError speaks for itself; unexpected errors go to the log."""
    if isinstance(error, ModelError):
        log.error("%s", error)
        return ErrorCode.MODEL, str(error)
    log.error("loading failed: %s", describe(error))
    if is_out_of_memory(error):
        return ErrorCode.MODEL, f"{arguments.model} does not fit in memory; choose a smaller model or another device"
    why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return ErrorCode.MODEL, f"{arguments.model} could not be loaded ({why}); details are in {arguments.log}"
